"""The demo: a made-up coding session, collected before your eyes."""
