package server

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// StartPostgres starts a private PostgreSQL server of the newest installed
// version and waits until it answers. The caller ends it with Stop and Remove.
func StartPostgres(ctx context.Context, config Config) (*Server, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	return create(ctx, dialect{
		name: "postgres", owner: "postgres",
		// Smart, fast and immediate shutdown are SIGTERM, SIGINT and SIGQUIT;
		// the smart one would wait for every client to leave.
		stop: syscall.SIGINT, crash: syscall.SIGQUIT,
		setup: setupPostgres, config: configurePostgres, args: postgresArgs,
		ready: postgresReady, url: postgresURL,
	}, bin, config)
}

func setupPostgres(ctx context.Context, s *Server) ([]*exec.Cmd, error) {
	s.User = "postgres"
	s.PIDFile = filepath.Join(s.Data, "postmaster.pid")
	password := filepath.Join(s.Folder, "password")
	if err := s.account.writeFile(password, s.Password+"\n"); err != nil {
		return nil, err
	}
	args := []string{
		"-D", s.Data, "--username", s.User, "--encoding", "UTF8", "--locale", "C",
		"--auth", "scram-sha-256", "--pwfile", password,
	}
	if !s.config.Durable {
		args = append(args, "--no-sync")
	}
	return []*exec.Cmd{exec.CommandContext(ctx, filepath.Join(s.Bin, "initdb"), args...)}, nil
}

// configurePostgres writes the settings into a file, not on the command line,
// so that ALTER SYSTEM and ALTER DATABASE can change them in a test.
func configurePostgres(s *Server) string {
	s.Socket = filepath.Join(s.Folder, ".s.PGSQL."+strconv.Itoa(s.Port))
	settings := []string{
		"include = '" + filepath.Join(s.Data, "postgresql.conf") + "'",
		"data_directory = '" + s.Data + "'",
		"hba_file = '" + filepath.Join(s.Data, "pg_hba.conf") + "'",
		"ident_file = '" + filepath.Join(s.Data, "pg_ident.conf") + "'",
		"listen_addresses = '127.0.0.1'",
		"port = " + strconv.Itoa(s.Port),
		"unix_socket_directories = '" + s.Folder + "'",
		"max_connections = 400",
		"timezone = 'UTC'",
		"log_timezone = 'UTC'",
		"synchronous_commit = on",
	}
	if !s.config.Durable {
		// The data do not outlive the tests: commits are still reported as
		// synchronous, but no file is forced to disk.
		settings = append(settings, "fsync = off", "full_page_writes = off", "max_wal_size = '2GB'",
			"dynamic_shared_memory_type = mmap") // inside our folder, so nothing is left
	}
	return strings.Join(append(settings, extra(s.config.Settings, "%s = '%s'")...), "\n") + "\n"
}

// extra formats settings in a stable order.
func extra(settings map[string]string, format string) []string {
	var lines []string
	for name, value := range settings {
		lines = append(lines, fmt.Sprintf(format, name, value))
	}
	slices.Sort(lines)
	return lines
}

func postgresArgs(s *Server) []string {
	return []string{filepath.Join(s.Bin, "postgres"), "-D", s.Data, "-c", "config_file=" + s.settings}
}

// postgresReady reads the state from the pid file of this very server. Asking
// the port could find the server of somebody else who was quicker to take it.
func postgresReady(_ context.Context, s *Server) bool {
	text, err := os.ReadFile(s.PIDFile)
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready"
}

func postgresURL(s *Server) *url.URL {
	return &url.URL{
		Scheme: "postgres", User: url.UserPassword(s.User, s.Password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), Path: "/postgres", RawQuery: "sslmode=disable",
	}
}
