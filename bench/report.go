package main

// How figures are taken in turn, kept, compared and shown.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// inTurn measures each of n subjects once a round. The order turns around from one round to the next, and a first
// round only warms up. keep is given what the rounds that count have found.
func inTurn[T any](rounds, n int, measure func(i int) (T, error), keep func(i int, found T)) error {
	for round := range rounds + 1 {
		for i := range n {
			if round%2 == 1 {
				i = n - 1 - i
			}
			found, err := measure(i)
			if err != nil {
				return err
			}
			if round > 0 {
				keep(i, found)
			}
		}
	}
	return nil
}

// record adds a round's value to a figure.
func (b *bench) record(name string, value float64) { b.figures[name] = append(b.figures[name], value) }

// ratio divides two figures round by round. It is empty when one of them was not taken.
func (b *bench) ratio(over, under string) []float64 {
	return combine(b.figures[over], b.figures[under], func(x, y float64) float64 { return x / y })
}

// difference subtracts two figures round by round.
func (b *bench) difference(from, what string) []float64 {
	return combine(b.figures[from], b.figures[what], func(x, y float64) float64 { return x - y })
}

func combine(xs, ys []float64, f func(x, y float64) float64) []float64 {
	values := make([]float64, min(len(xs), len(ys)))
	for i := range values {
		values[i] = f(xs[i], ys[i])
	}
	return values
}

// spread returns the lowest, the median and the highest of an odd number of values.
func spread(values []float64) (low, median, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
}

func median(values []float64) float64 {
	_, median, _ := spread(values)
	return median
}

// cell shows a figure as its median and its extremes, or a dash when it was not taken.
func cell(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	low, median, high := spread(values)
	return fmt.Sprintf("%s (%s to %s)", number(median), number(low), number(high))
}

// number shows three significant digits.
func number(x float64) string {
	switch size := max(x, -x); {
	case size >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
}

// table is one of Markdown; its first column is text, the others are numbers.
func table(header []string, rows [][]string) string {
	var out strings.Builder
	line := func(cells []string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	line(header)
	line(append([]string{"---"}, slices.Repeat([]string{"---:"}, len(header)-1)...))
	for _, row := range rows {
		line(row)
	}
	return out.String()
}
