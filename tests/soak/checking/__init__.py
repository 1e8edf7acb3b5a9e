"""Read all that the job writes for hours, and check it window by window."""
