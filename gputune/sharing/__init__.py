"""Several trainings on one card, as a measured decision: do they fit, does it pay, and no process is ever left behind.

The supervisor starts a launcher in a command's place, and the recorder records it like one; what is typed is read in
the recorder, before anything starts.

 spec       what was asked for             jobsfile   a file of several jobs
 tasks      jobs made into processes       preparing  what must be ready before the launcher starts; the dry run
 launcher   the process that runs them all
 course     one alone, then all: the order of the decisions      pack     while all of them run
 crew       starts, deaths, signals        member     one process
 fitting    how many fit, in numbers       climb      how many pay, by trying        known   what was said not to fit
 pressure   memory that is about to end    space      what there is for the tasks
 cards  host  gauge  progress  logs  window   what is seen of device, machine and tasks
 onray      the same in a Ray cluster        fractions  what each asks of it      farpack  far  hosted   its processes
 farrefusals   why such a run is not begun
 placing    cards, CPUs, MPS               cpus  mps  metric
 closing    the document at the end
"""
