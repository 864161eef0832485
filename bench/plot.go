package main

// The plots beside the page.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// plot writes calls.svg and sessions.svg.
func (b *bench) plot(dir string) error {
	plot.DefaultFont.Variant = "Sans"
	if err := b.plotCalls(filepath.Join(dir, "calls.svg")); err != nil {
		return err
	}
	return b.plotSessions(filepath.Join(dir, "sessions.svg"))
}

// plotCalls draws a bar for each call that makes an id, those of the server in a container as well.
func (b *bench) plotCalls(path string) error {
	p := plot.New()
	p.Title.Text = "What a call costs"
	p.X.Label.Text = "ns, median"
	p.X.Min = 0
	var names []string
	var values plotter.Values
	bar := func(name, figure string) {
		if taken := b.figures[figure]; len(taken) > 0 {
			names, values = append(names, plain(name)), append(values, max(median(taken), 0))
		}
	}
	for i := len(calls) - 1; i >= 0; i-- {
		if c := calls[i]; c.less != "" && !strings.HasSuffix(c.name, "a row") {
			bar(c.name, "call/"+c.name)
		}
	}
	bar(pgUUIDv7, "call 18/"+pgUUIDv7)
	bar(uuid18, "call 18/"+uuid18)
	bars, err := plotter.NewBarChart(values, vg.Points(14))
	if err != nil {
		return err
	}
	bars.Horizontal, bars.LineStyle.Width = true, 0
	bars.Color = plotutil.Color(2)
	p.Add(bars)
	p.NominalY(names...)
	p.X.Max = slices.Max(values) * 1.05
	return save(p, 8*vg.Inch, vg.Length(len(names))*0.3*vg.Inch+vg.Inch, path)
}

// plotSessions draws the ids a microsecond over the number of sessions.
func (b *bench) plotSessions(path string) error {
	p := plot.New()
	p.Title.Text = "Many sessions at once"
	p.X.Label.Text, p.Y.Label.Text = "sessions", "ids a microsecond, median"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(b.crowdTicks())
	p.Y.Min = 0
	p.Legend.Top = true
	for i, g := range generators[1:] {
		var points plotter.XYs
		for _, crowd := range b.crowds {
			points = append(points, plotter.XY{X: float64(crowd), Y: median(b.figures[crowdFigure("rate", g.name, crowd)])})
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, marks.Color, marks.Shape = plotutil.Color(i), plotutil.Color(i), plotutil.Shape(i)
		p.Add(line, marks)
		p.Legend.Add(plain(g.name), line, marks)
	}
	p.Y.Max *= 1.5 // room for the legend
	return save(p, 8*vg.Inch, 6*vg.Inch, path)
}

// save writes an SVG whose fonts have other names where they have other names.
func save(p *plot.Plot, width, height vg.Length, path string) error {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ReplaceAll(svg.Bytes(), []byte("Liberation Sans;"),
		[]byte("Liberation Sans,Arial,Helvetica,sans-serif;")), 0o644)
}

func (b *bench) crowdTicks() (ticks []plot.Tick) {
	for _, crowd := range b.crowds {
		ticks = append(ticks, plot.Tick{Value: float64(crowd), Label: fmt.Sprint(crowd)})
	}
	return ticks
}

// plain takes the marks of Markdown out of a name and leaves room after it for fonts that are a little wider.
func plain(name string) string { return strings.ReplaceAll(name, "`", "") + strings.Repeat(" ", 8) }
