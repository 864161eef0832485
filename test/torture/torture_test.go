package torture

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"pgsnowflake/test/cluster"
)

// options reads how long and from which seed: SNOWFLAKE_TORTURE_MINUTES and SNOWFLAKE_TORTURE_SEED, else a minute and
// a seed of the day.
func options(t *testing.T) Options {
	o := Options{Seed: uint64(time.Now().Unix()), Duration: time.Minute}
	if text := os.Getenv("SNOWFLAKE_TORTURE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		o.Seed = seed
	}
	if text := os.Getenv("SNOWFLAKE_TORTURE_MINUTES"); text != "" {
		minutes, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		o.Duration = time.Duration(minutes * float64(time.Minute))
	}
	return o
}

func openBackend(t *testing.T) cluster.Backend {
	backend, err := cluster.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("backend %s, PostgreSQL %d", backend.Name(), backend.Major())
	return backend
}

func TestTorture(t *testing.T) {
	o := options(t)
	if err := Run(t, openBackend(t), o); err != nil {
		t.Fatalf("%v\nto look for it again: make torture MINUTES=%.1f SEED=%d", err, o.Duration.Minutes(), o.Seed)
	}
}

// The machine can see: with one of the guards taken out it finds a fault, within a minute as a rule.
func TestTortureSeesFaults(t *testing.T) {
	for _, variant := range []string{"mark", "slot", "lease"} {
		t.Run(variant, func(t *testing.T) {
			o := options(t)
			o.Duration, o.Variant = 4*time.Minute, variant
			err := Run(t, openBackend(t), o)
			if err == nil {
				t.Fatalf("with variant %s nothing was found, seed %d", variant, o.Seed)
			}
			t.Logf("found: %v", err)
		})
	}
}
