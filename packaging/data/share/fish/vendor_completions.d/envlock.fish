# Loaded at the first completion: what the installed program knows.
envlock completions fish | source
