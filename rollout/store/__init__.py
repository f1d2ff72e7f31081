"""Everything on disk: the run directory, the journal with its schema and migrations, output files, blobs, recovery.

`run_dir` names the files of a run. `journal` writes and `reader` reads its database, which `connection` opens, `schema`
describes and `migrations` keeps current. `run_file`, `result_files`, `score_file` and `filter_file` are the other
files; `recover` saves what is readable of a damaged run.
"""
