"""Model repositories: folders, versions, config.pbtxt, and what a configuration means once it is complete."""
