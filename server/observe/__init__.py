"""What a person on call reads: statistics, metrics, logs."""
