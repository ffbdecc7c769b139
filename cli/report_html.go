package cli

import (
	_ "embed" // of the page
	"fmt"
	"html/template"
	"io"
	"math"
	"time"

	"github.com/dibs-run/dibs"
)

//go:embed report.html
var reportPage string

// page is an evidence as the template reads it.
type page struct {
	evidence
	From, To, Now string
	Balance       string
	Decisions     string
	EffectStates  string
	Chart         chart
}

// html writes the evidence as one page. All that comes from elsewhere is escaped
// by the template; the page loads and runs nothing.
func (e evidence) html(w io.Writer, zone *time.Location) error {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return stamp(t, zone)
	}
	t, err := template.New("report").Funcs(template.FuncMap{"at": at, "short": shortOrNone}).Parse(reportPage)
	if err != nil {
		return fmt.Errorf("read the report's page: %w", err)
	}
	p := page{
		evidence: e, From: at(e.From), To: at(e.To), Now: at(e.Now), Balance: e.balanceText(), Decisions: e.decisionText(),
		EffectStates: effectText(e.Effects), Chart: chartOf(e, zone),
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write the report's page: %w", err)
	}
	return nil
}

func shortOrNone(id string) string {
	if id == "" {
		return ""
	}
	return dibs.ShortID(id)
}

// mark is one thing in the picture.
type mark struct {
	X, Y, W float64
	Class   string
	Text    string
}

// chart is the timeline: triggers above, runs in lanes, lookups and human acts
// below. The picture is 1000 wide.
type chart struct {
	Ticks, Triggers, Runs, Dots      []mark
	Bottom, Label, DotsLabel, Height float64
	from                             time.Time
	length                           time.Duration
}

// The picture's measures.
const (
	chartLeft, chartRight = 90.0, 980.0
	laneTop, laneHeight   = 44.0, 16.0
	mostLanes             = 24
	mostMarks             = 5000
)

func chartOf(e evidence, zone *time.Location) chart {
	c := chart{from: e.From, length: e.To.Sub(e.From)}
	for _, t := range e.Triggers {
		at := t.Slot
		if at.IsZero() {
			at = t.CreatedAt
		}
		if len(c.Triggers) < mostMarks {
			c.Triggers = append(c.Triggers, mark{X: c.x(at), Class: string(t.Decision), Text: fmt.Sprintf("%s %s %s: %s", stamp(at, zone), t.Origin, t.Decision, t.Reason)})
		}
	}
	lanes := c.lanes(e, zone)
	dots := laneTop + float64(lanes)*laneHeight + 10
	c.DotsLabel = dots + 4
	for _, f := range e.Findings {
		class := string(f.Kind)
		if f.Kind == dibs.FindingDuplicate {
			class = "duplicated"
		}
		if len(c.Dots) < mostMarks {
			c.Dots = append(c.Dots, mark{X: c.x(f.FoundAt), Y: dots, Class: class, Text: fmt.Sprintf("%s %s %s", stamp(f.FoundAt, zone), f.Kind, f.WorkID)})
		}
	}
	for _, a := range e.Acts {
		if len(c.Dots) < mostMarks {
			c.Dots = append(c.Dots, mark{X: c.x(a.At), Y: dots, Class: "act", Text: fmt.Sprintf("%s %s by %s", stamp(a.At, zone), a.What, a.By)})
		}
	}
	c.Bottom = dots + 14
	c.Label, c.Height = c.Bottom+14, c.Bottom+20
	c.ticks(zone)
	return c
}

// x is an instant's place; what lies outside of the window is at its edge.
func (c chart) x(t time.Time) float64 {
	share := float64(t.Sub(c.from)) / float64(c.length)
	return round(chartLeft + (chartRight-chartLeft)*min(max(share, 0), 1))
}

func round(v float64) float64 { return math.Round(v*100) / 100 }

// lanes places runs so that none covers another, and answers how many lanes that
// takes. What finds no lane shares the last one.
func (c *chart) lanes(e evidence, zone *time.Location) int {
	var ends []float64
	for _, r := range e.Runs {
		end := r.EndedAt
		if end.IsZero() {
			end = e.Now
		}
		x := c.x(r.StartedAt)
		w := max(round(c.x(end)-x), 2)
		lane := len(ends)
		for i, free := range ends {
			if free < x {
				lane = i
				break
			}
		}
		if lane = min(lane, mostLanes-1); lane == len(ends) {
			ends = append(ends, 0)
		}
		ends[lane] = max(ends[lane], x+w)
		if len(c.Runs) < mostMarks {
			c.Runs = append(c.Runs, mark{X: x, Y: laneTop + float64(lane)*laneHeight, W: w, Class: string(r.State),
				Text: fmt.Sprintf("%s %s %s, %s: %s", r.ID, r.Kind, r.State, stamp(r.StartedAt, zone), r.Counts)})
		}
	}
	return max(len(ends), 1)
}

// ticks divides the window into six.
func (c *chart) ticks(zone *time.Location) {
	layout := "15:04:05"
	if c.length > 12*time.Hour {
		layout = "2 Jan 15:04"
	}
	for i := range 7 {
		t := c.from.Add(c.length / 6 * time.Duration(i))
		c.Ticks = append(c.Ticks, mark{X: c.x(t), Text: t.In(zone).Format(layout)})
	}
}
