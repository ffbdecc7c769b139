// Package command runs one child process the way a careful shell would: in a
// process group of its own, with signals passed on, output streamed unchanged,
// a bounded tail kept, and an exit code as a shell reports it.
//
// The package knows nothing of jobs, runs, leases or databases. A caller that
// holds a lease cancels the context with a cause and says in Config.KillBy by
// which instant nothing of the child may be left.
//
// # When the run ends
//
// The run ends when the direct child ends. What the child left behind on
// purpose (a daemon) is left alone and listed in Result.LeftBehind; if it still
// holds the output pipe, the pipe is cut after Config.OutputGrace. A stop
// (context, or a forwarded INT, TERM, HUP, QUIT or ABRT) means everything:
// group and, where they can be found, processes that left the group. After
// Config.Grace they get KILL, and Run returns when they are gone.
//
// # What each platform guarantees
//
//	                               Linux              other Unix     Windows
//	stop reaches the group         yes                yes            no Run
//	stop reaches setsid escapees   yes, needs /proc   no
//	wrapper SIGKILLed: child dies  yes (not setuid)   no
//	wrapper SIGKILLed: group dies  no                 no
//	Gone, Survivors                yes, needs /proc   unknown
//
// The parent-death signal covers the direct child only, and the kernel clears
// it when the child becomes a set-user-ID program such as sudo. Escapees whose
// parent has ended are found only with Config.Wrapper, which makes them
// children of this process. What outlives a SIGKILLed wrapper can be found by
// the environment it inherited: see Survivors. Only an outer cgroup, or a
// container that ends with its first process, takes the whole tree at once.
package command
