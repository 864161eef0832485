package torture

import (
	"testing"
	"time"
)

func TestLeases(t *testing.T) {
	o := options(t)
	if err := RunLeases(t, openBackend(t), o, true); err != nil {
		t.Fatalf("%v\nto look for it again: SNOWFLAKE_TORTURE_MINUTES=%.1f SNOWFLAKE_TORTURE_SEED=%d go test -run 'TestLeases$' ./test/torture",
			err, o.Duration.Minutes(), o.Seed)
	}
}

// The run can see: servers that were given the same worker make the same ids.
func TestLeasesSeeFaults(t *testing.T) {
	o := options(t)
	o.Duration = time.Minute
	err := RunLeases(t, openBackend(t), o, false)
	if err == nil {
		t.Fatalf("nothing was found, seed %d", o.Seed)
	}
	t.Logf("found: %v", err)
}
