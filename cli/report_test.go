package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
)

const hostileText = `"><script>alert(1)</script>` + "\x1b[31m=cmd|' /C calc'!A0"

// hostileEvidence has hostile text wherever text comes from elsewhere.
func hostileEvidence() evidence {
	from := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	h := hostileText
	e := evidence{
		Now: from.Add(3 * time.Hour), Job: h, From: from, To: from.Add(time.Hour), Balanced: true, Decisions: map[dibs.Decision]int64{},
		Triggers: []dibs.Trigger{
			{ID: "trg_1", Job: h, Origin: "schedule", Slot: from, Decision: "started", Reason: dibs.Reason(h), RunID: "run_1", By: h, Why: h, CreatedAt: from, Detail: h},
			{ID: "trg_2", Job: h, Origin: "manual", Decision: dibs.Decision(h), RunID: "", BlockingRun: "run_1", CreatedAt: from.Add(10 * time.Minute)},
		},
		Outcomes:    []dibs.OutcomeRecord{{RunID: "run_1", Key: "=1+1", WorkID: h, Outcome: "uncertain", Error: h, ReceiptID: h, RecordedAt: from}},
		Effects:     []dibs.Effect{{WorkID: h, State: "held", DestinationID: h, Error: h, IntendedAt: from}},
		Findings:    []dibs.Finding{{RunID: "run_1", WorkID: h, Kind: "duplicate", Detail: h, FoundAt: from.Add(2 * time.Hour)}},
		Acts:        []dibs.AuditRecord{{By: h, What: "resolve", Object: h, Why: h, At: from.Add(30 * time.Minute)}},
		Definitions: []evidentDefinition{{Hash: "h", Text: h, Runs: 1}},
	}
	for i := range 30 { // more at once than there are lanes
		e.Runs = append(e.Runs, dibs.Run{ID: "run_1", State: dibs.RunState([]string{"succeeded", "lost", "running", h}[i%4]), Error: h, StartedAt: from.Add(time.Duration(i) * time.Second)})
	}
	return e
}

func TestReportPageIsWellFormedAndHarmless(t *testing.T) {
	var b bytes.Buffer
	e := hostileEvidence()
	if err := e.html(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, bad := range []string{"<script", "ZgotmplZ", "NaN", "Inf", "<no value>"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if n := strings.Count(text, "&lt;script&gt;"); n < 12 {
		t.Errorf("hostile text is shown %d times", n)
	}
	svg := regexp.MustCompile(`(?s)<svg.*</svg>`).FindString(text)
	d := xml.NewDecoder(strings.NewReader(strings.ReplaceAll(svg, "\x1b", "")))
	seen := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is not well formed: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok {
			seen[start.Name.Local]++
		}
	}
	if seen["rect"] != 30 || seen["circle"] != 2 || seen["line"] != 2+7+1 {
		t.Errorf("the picture has %v", seen)
	}
}

func TestTimelinePlacesThings(t *testing.T) {
	c := chartOf(hostileEvidence(), time.UTC)
	if c.Triggers[0].X != chartLeft || c.Dots[0].X != chartRight || c.Dots[1].X != (chartLeft+chartRight)/2 {
		t.Errorf("triggers at %v, dots at %v", c.Triggers, c.Dots)
	}
	top := 0.0
	for _, r := range c.Runs {
		top = max(top, r.Y)
		if r.W < 2 || r.X < chartLeft || r.X+r.W > chartRight+2 {
			t.Errorf("a run at %+v", r)
		}
	}
	if top != laneTop+(mostLanes-1)*laneHeight || c.Bottom < top+laneHeight || c.Height < c.Label {
		t.Errorf("%d lanes end at %v, bottom %v, height %v", mostLanes, top, c.Bottom, c.Height)
	}
}

func TestReportTableIsHarmless(t *testing.T) {
	var b bytes.Buffer
	if err := hostileEvidence().csv(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	if rows[1][8] != "'=1+1" || rows[1][9] != hostileText || rows[2][8] != "" {
		t.Errorf("rows %q", rows)
	}
}
