"""How fast is each algorithm, and is its answer right? Workloads, measurements and the experiments of the papers."""
