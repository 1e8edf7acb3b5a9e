"""Read what the job committed and delivered during faults, and check it."""
