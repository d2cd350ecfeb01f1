"""The promises for every durable log, tested with real server processes: no change is lost, whichever process is killed at any time."""
