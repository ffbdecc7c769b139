package cli

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// notifier tells systemd how this process is: one datagram for each message, to
// the socket that systemd named. Without one, it says nothing. It is safe for
// concurrent use.
type notifier struct {
	socket string
	// watchdog is how often systemd wants to hear of us; zero: not at all.
	watchdog time.Duration
}

// newNotifier reads what systemd has put into the environment, and takes it out
// so that no handler can speak in our name.
func newNotifier(env func(string) string) *notifier {
	n := &notifier{socket: env("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64)
	pid := env("WATCHDOG_PID")
	if err == nil && usec > 0 && n.socket != "" && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name) // fails only for names that cannot be set either
	}
	return n
}

// pulse is how often [notifier.alive] is to be called; zero: never.
func (n *notifier) pulse() time.Duration { return n.watchdog / 2 }

func (n *notifier) alive() { _ = n.send("WATCHDOG=1") } // a lost beat is followed by the next

// serving says that everything has begun, or begun again after a reload.
func (n *notifier) serving(status string) error { return n.send("READY=1", "STATUS="+status) }

func (n *notifier) reloading() error {
	return n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonicMicros()))
}

func (n *notifier) stopping() error { return n.send("STOPPING=1", "STATUS=stopping") }

// send writes one datagram. A name that begins with @ is in the abstract
// namespace, which package net knows by the same sign.
func (n *notifier) send(lines ...string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"}) // a datagram socket connects at once
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer func() { _ = conn.Close() }() // a datagram is sent or not by now
	if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
