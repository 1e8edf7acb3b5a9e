"""Set the clocks of the job's processes, by a module that Python loads first (`sitecustomize`)."""
