package main

// The plots beside the page.

import (
	"fmt"
	"image/color"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// plot writes calls.svg and sessions.svg.
func (b *bench) plot(dir string) error {
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
	p.BackgroundColor = color.White
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
	for _, name := range []string{pgUUIDv7, uuid18} {
		bar(name, "call 18/"+name)
	}
	bars, err := plotter.NewBarChart(values, vg.Points(14))
	if err != nil {
		return err
	}
	bars.Horizontal, bars.LineStyle.Width = true, 0
	bars.Color = plotutil.Color(2)
	p.Add(bars)
	p.NominalY(names...)
	return p.Save(8*vg.Inch, vg.Length(len(names))*0.32*vg.Inch+vg.Inch, path)
}

// plotSessions draws the ids a microsecond over the number of sessions.
func (b *bench) plotSessions(path string) error {
	p := plot.New()
	p.Title.Text = "Many sessions at once"
	p.X.Label.Text, p.Y.Label.Text = "sessions", "ids a microsecond, median"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(b.crowdTicks())
	p.Y.Min = 0
	p.Legend.Top = true
	p.BackgroundColor = color.White
	for i, g := range generators {
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
	return p.Save(8*vg.Inch, 6*vg.Inch, path)
}

func (b *bench) crowdTicks() (ticks []plot.Tick) {
	for _, crowd := range b.crowds {
		ticks = append(ticks, plot.Tick{Value: float64(crowd), Label: fmt.Sprint(crowd)})
	}
	return ticks
}

// plain takes the marks of Markdown out of a name.
func plain(name string) string { return strings.ReplaceAll(name, "`", "") }
