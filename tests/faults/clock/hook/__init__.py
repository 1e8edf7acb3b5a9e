"""On the path of the job, so that Python loads `sitecustomize` before everything else."""
