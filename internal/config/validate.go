package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/dibs-run/dibs/schedule"
)

// checker looks across the fields of one decoded job. It judges what is there
// by the file, not by the decoded value: a field that is wrong in itself has
// been reported and is not also missing.
type checker struct {
	faults *faults
	job    *Job
	path   string
	zones  *schedule.Zones
	// ownZone is true when the job itself names its time zone.
	ownZone bool
}

func (c *checker) fault(problem, fix string, place ...string) {
	c.faults.node(c.job.node.place(place...), join(c.path, strings.Join(place, ".")), problem, fix)
}

func (c *checker) has(path ...string) bool { return c.job.node.has(path...) }

// exactlyOne refuses a block with none or several of its alternatives.
func (c *checker) exactlyOne(block, fix string, names ...string) {
	given := 0
	for _, name := range names {
		if c.has(block, name) {
			given++
		}
	}
	last := len(names) - 1
	if given != 1 {
		c.fault("needs exactly one of "+strings.Join(names[:last], ", ")+" and "+names[last], fix, block)
	}
}

func (c *checker) check() {
	j := c.job
	checkZone(c.zones, c.faults, j.node.place("time_zone"), j.TimeZone, join(c.path, "time_zone"))
	if j.Grace > 0 && j.Lease > 0 && j.Grace >= j.Lease {
		c.fault("a grace as long as the lease leaves no time to work", "shorten grace or lengthen lease", "grace")
	}
	if j.Schedule != nil {
		c.schedule(j.Schedule)
	}
	if j.Source != nil {
		c.source(j.Source)
		if !c.has("handler") {
			c.fault("a job with a source needs a handler", "add handler: {exec: [COMMAND]} or handler: {http: {url: …}}")
		}
	}
	if j.PerHost && j.Source != nil {
		c.fault("the rows of a table belong to no host", "remove per_host: claims exclude one another across hosts", "per_host")
	}
	if j.NotWithin > 0 && j.Source != nil {
		c.fault("says when a job without a source may run again", "write not_within in source", "not_within")
	}
	if j.Handler != nil {
		c.handler(j.Handler)
	}
	c.effects(j)
}

func (c *checker) schedule(s *Schedule) {
	if c.job.node.get("schedule").kind == mapping {
		c.exactlyOne("schedule", `write for example schedule: "*/5 * * * *"`, "cron", "every", "at")
	}
	if s.At != "" {
		if _, err := time.Parse(time.RFC3339, s.At); err != nil {
			c.fault("is not an instant", "write RFC 3339 with an offset, such as 2027-03-01T09:00:00Z", "schedule", "at")
		}
	}
	c.parseSchedule(s)
}

func (c *checker) source(s *Source) {
	if s.Table != "" {
		if _, _, problem := s.names(); problem != "" {
			c.fault(problem, "write NAME or SCHEMA.NAME; for a name with a dot in it, write schema: too", "source", "table")
		}
	}
	c.columns("key", s.Key)
	c.columns("select", s.Select)
	again := c.has("source", "every") || c.has("source", "not_within")
	if c.has("source", "every") && c.has("source", "not_within") {
		c.fault("every and not_within exclude one another", "keep one of them", "source", "not_within")
	}
	if s.OneShot && again {
		c.fault("one-shot rows never come again", "remove one_shot, or every and not_within", "source", "one_shot")
	}
	if s.TwoColumn {
		c.twoColumn(s)
	}
}

// columns refuses an empty name and one that is listed twice.
func (c *checker) columns(field string, names []string) {
	seen := map[string]bool{}
	for _, name := range names {
		switch {
		case name == "" && c.job.node.get("source").get(field).kind == list:
			c.fault("a column's name is empty", "name each column", "source", field)
		case name != "" && seen[name]:
			c.fault(quote(name)+" is listed twice", "name each column once", "source", field)
		}
		seen[name] = true
	}
}

func (c *checker) twoColumn(s *Source) {
	if s.OneShot && (s.Labels == nil || s.Labels.Done == "") {
		c.fault("a one-shot job on two columns needs a label for done rows", "add labels: {done: …}", "source", "one_shot")
	}
	if s.Columns == nil {
		return
	}
	bare := *s.Columns
	bare.Status, bare.StartedAt = "", ""
	if bare != (Columns{}) {
		c.fault("two_column uses status and started_at alone", "remove the other columns, or two_column", "source", "columns")
	}
}

func (c *checker) handler(h *Handler) {
	c.exactlyOne("handler", "write one of them", "exec", "shell", "http")
	if len(h.Exec) > 0 && h.Exec[0] == "" && len(c.job.node.get("handler").get("exec").items) > 0 && c.job.node.get("handler").get("exec").items[0].text == "" {
		c.fault("the command is empty", "write exec: [COMMAND, ARGUMENT]", "handler", "exec")
	}
	if h.Shell != "" && c.job.Source != nil {
		c.fault("a shell command cannot have items: their values would become part of it", "write exec: [PROGRAM, ARGUMENT]", "handler", "shell")
	}
	if h.HTTP != nil {
		c.http(h.HTTP)
	}
}

func (c *checker) http(h *HTTP) {
	c.request("handler", h.Method, h.URL, h.Headers)
	if name := h.IdempotencyHeader; name != "" && name != "-" && !headerName(name) {
		c.fault(quote(name)+" is not a header name", "use letters, digits and -", "handler", "http", "idempotency_header")
	}
	if h.Status != nil {
		c.status(h.Status)
	}
}

// status refuses a code with two meanings.
func (c *checker) status(s *Status) {
	seen := map[StatusCode]string{}
	for _, meaning := range []struct {
		name  string
		codes []StatusCode
	}{{"done", s.Done}, {"later", s.Later}, {"rejected", s.Rejected}, {"stop", s.Stop}} {
		for _, code := range meaning.codes {
			if other, twice := seen[code]; twice && code != "" {
				c.fault(string(code)+" is already under "+other, "give each status one meaning", "handler", "http", "status", meaning.name)
			}
			seen[code] = meaning.name
		}
	}
}

// webAddress is true for an http address; templates may stand after the host.
func webAddress(text string) bool {
	lower := strings.ToLower(text)
	if !strings.HasPrefix(lower, "http://") && !strings.HasPrefix(lower, "https://") {
		return false
	}
	_, rest, _ := strings.Cut(text, "://")
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	u, err := url.Parse("http://" + host)
	return err == nil && u.Hostname() != ""
}

func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

// names splits the table's name into schema and name.
func (s *Source) names() (schema, name, problem string) {
	if s.Schema != "" {
		return s.Schema, s.Table, ""
	}
	parts := strings.Split(s.Table, ".")
	for _, part := range parts {
		if part == "" {
			return "", "", quote(s.Table) + " has an empty part"
		}
	}
	switch len(parts) {
	case 1:
		return "", parts[0], ""
	case 2:
		return parts[0], parts[1], ""
	}
	return "", "", quote(s.Table) + " has more than one dot"
}

// again is how long after its success a row is due, in the root's terms.
func (s *Source) again() time.Duration {
	switch {
	case s.Every != nil:
		return always(*s.Every)
	case s.NotWithin != nil:
		return always(*s.NotWithin)
	}
	return 0
}
