"""Everything on disk: the run directory, the journal with its schema and migrations, output files, blobs, recovery.

`run_dir` names the files of a run. `journal` writes its database, which `connection` opens, `schema` describes and
`migrations` keeps current; `reading/` reads it. `files/` has the other files, `marks` the marks of people, and
`recovery/` saves what is readable of a damaged run.
"""
