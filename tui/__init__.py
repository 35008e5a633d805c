"""The dashboard and what it shares with the command line: a client, pictures of a server, and rates between them.

It sees a server over a socket only. Textual is imported by `app`, `poller`, `screens` and `widgets` alone.
"""
