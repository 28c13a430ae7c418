"""What happens when the process dies, the disk fills up, or somebody else writes too."""
