"""What decides: baselines, rules, forest, peers, progress, scope, cause and the life of incidents.

Pure: values in, values out, time only as the ticks of records. Live workers and `lockstep analyze` share every line.
"""
