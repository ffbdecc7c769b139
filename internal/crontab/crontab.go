// Package crontab reads crontabs as cron reads them: comments, environment
// lines, schedules, the user column of the system form, and what a percent sign
// means in a command.
//
// It must not know jobs, databases or the command line. Of this module it
// imports nothing.
package crontab

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Kind is what a line is.
type Kind int

// The kinds of lines.
const (
	// Text is a blank line or a comment.
	Text Kind = iota
	// Variable is NAME=VALUE.
	Variable
	// Entry is a schedule and a command.
	Entry
	// Bad cannot be read: see Line.Problem.
	Bad
)

// Line is one line of a crontab.
type Line struct {
	Number int
	Kind   Kind
	// Raw is the line as it is in the file, without its end.
	Raw string

	// Name and Value of a Variable, without quotes.
	Name, Value string

	// Schedule is an Entry's five fields, or a word such as @daily.
	Schedule string
	// User is the column of the system form; empty otherwise.
	User string
	// Command is the command as it is written: with \% for a percent sign, and
	// without what follows the first bare one.
	Command string
	// Input follows the first bare percent sign, as it is written; HasInput tells
	// an empty one from none.
	Input    string
	HasInput bool

	// Problem says what is wrong with a Bad line.
	Problem string
}

// Shell is the command as cron hands it to the shell.
func (l Line) Shell() string { return strings.ReplaceAll(l.Command, `\%`, "%") }

// Stdin is what cron gives the command to read: further percent signs are ends
// of lines, and the last line ends in one.
func (l Line) Stdin() string {
	if !l.HasInput {
		return ""
	}
	const mark = "\x00"
	s := strings.ReplaceAll(l.Input, `\%`, mark)
	s = strings.ReplaceAll(strings.ReplaceAll(s, "%", "\n"), mark, "%")
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}

// Macros are the words that stand for a schedule, @reboot aside.
func Macros() []string {
	return []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
}

// Reboot is the word for "once, when the host starts".
const Reboot = "@reboot"

// mostLine bounds a line; cron itself stops far below.
const mostLine = 1 << 20

// Read reads a crontab; system says that it has a user column. Lines that
// cannot be read are Bad and do not fail the file.
func Read(r io.Reader, system bool) ([]Line, error) {
	var lines []Line
	s := bufio.NewScanner(r)
	s.Buffer(nil, mostLine)
	for s.Scan() {
		lines = append(lines, parse(len(lines)+1, s.Text(), system))
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read line %d: %w", len(lines)+1, err)
	}
	return lines, nil
}

func parse(number int, raw string, system bool) Line {
	l := Line{Number: number, Raw: raw}
	text := strings.TrimLeft(raw, " \t")
	if text == "" || text[0] == '#' {
		return l
	}
	if name, value, ok := variable(text); ok {
		l.Kind, l.Name, l.Value = Variable, name, value
		return l
	}
	bad := func(format string, args ...any) Line {
		l.Kind, l.Problem = Bad, fmt.Sprintf(format, args...)
		return l
	}
	fields := 5
	if text[0] == '@' {
		fields = 1
	}
	var when []string
	rest := text
	for range fields {
		var field string
		field, rest = word(rest)
		if field == "" {
			return bad("want five fields of time, or a word such as @daily, and a command")
		}
		when = append(when, field)
	}
	l.Schedule = strings.Join(when, " ")
	if fields == 1 && !known(l.Schedule) {
		return bad("%s is not a word that cron knows", l.Schedule)
	}
	if system {
		if l.User, rest = word(rest); l.User == "" {
			return bad("want a user before the command")
		}
	}
	l.Command, l.Input, l.HasInput = cut(strings.TrimRight(rest, " \t\r"))
	if l.Command = strings.TrimRight(l.Command, " \t"); l.Command == "" {
		return bad("there is no command")
	}
	l.Kind = Entry
	return l
}

func known(word string) bool {
	for _, m := range append(Macros(), Reboot) {
		if word == m {
			return true
		}
	}
	return false
}

// word takes the first word off a text.
func word(s string) (first, rest string) {
	s = strings.TrimLeft(s, " \t")
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

// cut splits a command at its first bare percent sign.
func cut(s string) (command, input string, has bool) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '%':
			i++
		case s[i] == '%':
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// variable reads NAME=VALUE: either may be in quotes, and there may be space
// around the sign.
func variable(s string) (name, value string, ok bool) {
	if s[0] == '"' || s[0] == '\'' {
		end := strings.IndexByte(s[1:], s[0])
		if end < 0 {
			return "", "", false
		}
		name, s = s[1:1+end], s[end+2:]
	} else {
		i := strings.IndexAny(s, "= \t")
		if i <= 0 {
			return "", "", false
		}
		name, s = s[:i], s[i:]
	}
	s = strings.TrimLeft(s, " \t")
	if name == "" || !strings.HasPrefix(s, "=") {
		return "", "", false
	}
	value = strings.Trim(s[1:], " \t\r")
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	return name, value, true
}
