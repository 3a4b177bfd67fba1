"""What decides: baselines, rules, forest, peers, progress, scope, cause and the life of incidents.

Pure: values in, values out, time only as the ticks of records. Live workers and `lockstep analyze` share every line.
What judges more stands on what judges less:

    drift      train       what wears out; a forest of one's own
    pipeline   rack        traces of pipeline parallelism; cooling and power of a rack
    job  hang  node        who is late and who waits; who holds up what stands still; one node's readings
    incident   forest      one incident per fault, its cause and words; scores
    condition, episode, watermark, state ...   what all of them share
"""
