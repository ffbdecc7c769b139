package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// greetingWait bounds one look at a server that is still starting.
const greetingWait = 500 * time.Millisecond

// zoneFolder holds the compiled time zones of the machine (package tzdata).
const zoneFolder = "/usr/share/zoneinfo"

// StartMariaDB starts a private MariaDB server and waits until it answers. The
// caller ends it with Stop and Remove.
func StartMariaDB(ctx context.Context, config Config) (*Server, error) {
	daemon, err := findMariaDB()
	if err != nil {
		return nil, err
	}
	return create(ctx, dialect{
		name: "mariadb", owner: "mysql",
		stop: syscall.SIGTERM, crash: syscall.SIGKILL,
		setup: setupMariaDB, config: configureMariaDB, users: mariadbUsers, args: mariadbArgs,
		ready: mariadbReady, url: mariadbURL,
	}, daemon, config)
}

func setupMariaDB(ctx context.Context, s *Server) ([]*exec.Cmd, error) {
	s.User = "dibs"
	s.Socket = filepath.Join(s.Folder, "mariadb.sock")
	program, err := findProgram("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	if err := s.writeZones(ctx); err != nil {
		return nil, err
	}
	return []*exec.Cmd{exec.CommandContext(ctx, program, "--no-defaults", "--datadir="+s.Data, "--skip-test-db",
		"--innodb-log-file-size="+s.redoSize(), "--skip-name-resolve",
		"--auth-root-authentication-method=socket", "--auth-root-socket-user="+s.account.name,
		"--extra-file="+s.zoneFile())}, nil
}

// zones are the time zones that sessions can use by name, besides SYSTEM and
// offsets: MariaDB has none until they are loaded, and loading all takes longer
// than everything else.
var zones = [...]string{"UTC", "America/New_York", "Europe/Amsterdam", "Pacific/Kiritimati"}

func (s *Server) zoneFile() string { return filepath.Join(s.Folder, "zones.sql") }

// writeZones leaves the SQL that loads the time zones.
func (s *Server) writeZones(ctx context.Context) error {
	program, err := findProgram("mariadb-tzinfo-to-sql")
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, zone := range zones {
		load := exec.CommandContext(ctx, program, filepath.Join(zoneFolder, zone), zone)
		sql, err := load.Output()
		if err != nil {
			return fmt.Errorf("read the time zone %s: %w", zone, err)
		}
		text.Write(sql)
	}
	return s.account.writeFile(s.zoneFile(), text.String())
}

// redoSize keeps the folder small in the memory file system; a benchmark gets
// the default.
func (s *Server) redoSize() string {
	if s.config.Durable {
		return "96M"
	}
	return "32M"
}

func configureMariaDB(s *Server) string {
	settings := []string{
		"[mariadbd]",
		"datadir=" + s.Data,
		"socket=" + s.Socket,
		"tmpdir=" + s.Folder, // a server that starts removes the temporary tables of others
		"pid-file=" + s.PIDFile,
		"bind-address=127.0.0.1",
		"port=" + strconv.Itoa(s.Port),
		"init-file=" + s.initFile(),
		"skip-name-resolve",
		"max_connections=400",
		"character-set-server=utf8mb4",
		"innodb_flush_log_at_trx_commit=1",
		"innodb_log_file_size=" + s.redoSize(),
		"innodb_buffer_pool_size=256M",
	}
	return strings.Join(append(settings, extra(s.config.Settings, "%s=%s")...), "\n") + "\n"
}

func (s *Server) initFile() string { return filepath.Join(s.Folder, "users.sql") }

// mariadbUsers makes our user. The server runs it at each start, before it
// answers anybody; each statement is on one line, as it wants.
func mariadbUsers(s *Server) string {
	var text strings.Builder
	for _, host := range []string{"%", "localhost"} {
		account := "'" + s.User + "'@'" + host + "'"
		text.WriteString("CREATE USER IF NOT EXISTS " + account + " IDENTIFIED BY '" + s.Password + "';\n")
		text.WriteString("GRANT ALL PRIVILEGES ON *.* TO " + account + " WITH GRANT OPTION;\n")
	}
	return text.String()
}

func mariadbArgs(s *Server) []string {
	return []string{s.Bin, "--defaults-file=" + s.settings}
}

// mariadbReady looks for the greeting on the socket in the server's own folder.
// Asking the port could find the server of somebody else who was quicker.
func mariadbReady(ctx context.Context, s *Server) bool {
	ctx, cancel := context.WithTimeout(ctx, greetingWait)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", s.Socket)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(greetingWait)); err != nil {
		return false
	}
	// Four bytes of header, then the version of the protocol; 255 is an error.
	greeting := make([]byte, 5)
	_, err = io.ReadFull(conn, greeting)
	return err == nil && greeting[4] == 10
}

func mariadbURL(s *Server) *url.URL {
	return &url.URL{
		Scheme: "mysql", User: url.UserPassword(s.User, s.Password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), Path: "/",
	}
}
