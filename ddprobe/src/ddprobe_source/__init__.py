"""ddprobe: how long does a synchronous write to this disk take, and which tasks are stuck in state D?

USAGE         ddprobe run|serve|passive|explain [OPTIONS] [PATH...]      (ddprobe --help)
REQUIREMENTS  Linux, Python 3.9 or newer, nothing else. Root sees every task; others see what they may.
OVERHEAD      Each run spends I/O credits: passive none, lite one write and one flush, classic 66 writes
              and 20 flushes. The ladder spends 42 while the disk is healthy. At most 1 % of 100 IOPS.

Most probes of a sick disk hang on it. This one keeps to these rules:
- whatever may block is done by a forked child, which is not awaited beyond a deadline (ChildTask);
- one writer per file system: it holds a lock in memory, and the next run reports since when it is stuck;
- of other processes only stat, status, wchan, cgroup and fd/ are read: the rest of /proc takes mmap_lock;
- few modules are imported, because each of them is a read from a disk that may be sick. So it uses no
  argparse, json or dataclass, and imports what an output needs only when that output is requested;
- it remedies nothing: it reports what it saw.
"""
