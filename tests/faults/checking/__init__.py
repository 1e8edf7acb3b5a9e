"""What the job committed and delivered during faults, and whether that is right."""
