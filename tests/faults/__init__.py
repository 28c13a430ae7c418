"""What happens when the process dies, the disk is full, or another process writes too."""
