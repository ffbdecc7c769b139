package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// proc is what /proc/PID/stat says about one process.
type proc struct {
	pid, parent, group int
	state              byte
	start              uint64 // clock ticks after boot
}

// alive is false for a zombie: it holds nothing and does nothing any more.
func (p proc) alive() bool { return p.state != 'Z' && p.state != 'X' }

// errForeignProc says that /proc shows another pid namespace than ours.
var errForeignProc = errors.New("/proc belongs to another pid namespace")

// readProc reads the entry of one process; pid "self" is allowed.
func readProc(pid string) (proc, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return proc{}, fmt.Errorf("read process %s: %w", pid, err)
	}
	return parseStat(data)
}

// parseStat reads "PID (NAME) STATE PPID PGRP … START …". The name may hold
// anything, brackets and spaces included, so fields count from the last ')'.
func parseStat(data []byte) (proc, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || end < open {
		return proc{}, fmt.Errorf("read process: no name in %q", data)
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) < 20 {
		return proc{}, fmt.Errorf("read process: %d fields after the name", len(fields))
	}
	p := proc{state: fields[0][0]}
	var errs [4]error
	p.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(data[:open])))
	p.parent, errs[1] = strconv.Atoi(string(fields[1]))
	p.group, errs[2] = strconv.Atoi(string(fields[2]))
	p.start, errs[3] = strconv.ParseUint(string(fields[19]), 10, 64)
	return p, errors.Join(errs[:]...)
}

// ownProc reads our own entry and refuses a /proc whose numbers are not ours.
func ownProc() (proc, error) {
	p, err := readProc("self")
	if err == nil && p.pid != os.Getpid() {
		return proc{}, errForeignProc
	}
	return p, err
}

// listProcs reads all processes; those that end meanwhile are left out.
func listProcs() ([]proc, error) {
	if _, err := ownProc(); err != nil {
		return nil, err
	}
	pids, err := listPIDs()
	if err != nil {
		return nil, err
	}
	procs := make([]proc, 0, len(pids))
	for _, pid := range pids {
		if p, err := readProc(pid); err == nil {
			procs = append(procs, p)
		}
	}
	return procs, nil
}

func listPIDs() ([]string, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	pids := names[:0]
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' {
			pids = append(pids, name)
		}
	}
	return pids, nil
}
