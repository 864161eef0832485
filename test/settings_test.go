package test

import (
	"fmt"
	"testing"

	"pgsnowflake/test/cluster"
)

func TestSettingsAreChecked(t *testing.T) {
	c := connect(t)
	exec(t, c, "LOAD 'snowflake'")
	for _, bad := range []struct{ setting, value, text string }{
		{"worker_id", "1024", "1024 is outside the valid range"}, // baidu/uid-generator PR#52
		{"worker_id", "1025", "outside the valid range"},
		{"worker_id", "-2", "-2 is outside the valid range"},
		{"worker_id", "x", "invalid value"},
		{"clock_tolerance", "-1", "outside the valid range"},
		{"clock_tolerance", "2min", "outside the valid range"},
		{"epoch", "2999-01-01T00:00:00Z", "in the future"},
		{"epoch", "yesterday", "ISO 8601"},
		{"epoch", "", "ISO 8601"},
		{"epoch", "2026-02-30T00:00:00Z", "ISO 8601"},
		{"epoch", "2026-01-01T24:00:00Z", "ISO 8601"},
		{"epoch", "2026-01-01T00:00:00.0001Z", "ISO 8601"},
		{"epoch", "2026-01-01T00:00:00 Europe/Berlin", "ISO 8601"},
		{"epoch", "01/02/2026", "ISO 8601"},
	} {
		err := tryExec(t, c, fmt.Sprintf("SET snowflake.%s = '%s'", bad.setting, bad.value))
		wantError(t, err, "22023", bad.text)
	}
	for _, good := range []string{"0", "1023", "-1"} {
		exec(t, c, "SET snowflake.worker_id = "+good)
	}
	for value, first := range map[string]string{
		"2025-03-01":                    "2025-03-01 00:00:00+00", // no zone: UTC
		"2025-03-01T12:30":              "2025-03-01 12:30:00+00",
		"2025-03-01 12:30:15.25":        "2025-03-01 12:30:15.25+00",
		"2025-03-01T12:30:15.123Z":      "2025-03-01 12:30:15.123+00",
		"2025-03-01T12:30:15+05:30":     "2025-03-01 07:00:15+00",
		"2025-03-01T12:30:15-0800":      "2025-03-01 20:30:15+00",
		"2025-03-01T12:30:15+01":        "2025-03-01 11:30:15+00",
		"1969-12-31T23:59:59.999Z":      "1969-12-31 23:59:59.999+00",
		"2024-02-29T00:00:00.000-00:30": "2024-02-29 00:30:00+00",
	} {
		exec(t, c, "SET TimeZone = 'Asia/Shanghai'; SET DateStyle = 'SQL, DMY'; SET snowflake.epoch = '"+value+"'")
		exec(t, c, "SET TimeZone = 'UTC'; SET DateStyle = ISO")
		if got := one[string](t, c, "SELECT snowflake_timestamp(0)::text"); got != first {
			t.Errorf("epoch %q begins at %s, not %s", value, got, first)
		}
	}
	wantError(t, tryExec(t, c, "SET snowflake.worker_range = '1-2'"), "55P02", "worker_range")
	wantError(t, tryExec(t, c, "SET snowflake.workerid = 1"), map[bool]string{true: "42602", false: ""}[backend.Major() >= 15])
}

func TestSettingsNeedASuperuser(t *testing.T) {
	c := connect(t)
	exec(t, c, "LOAD 'snowflake'; CREATE ROLE "+one[string](t, c, "SELECT 'r_' || current_database()"))
	exec(t, c, "SET ROLE "+one[string](t, c, "SELECT 'r_' || current_database()"))
	for _, setting := range []string{"worker_id = 1", "epoch = '2025-01-01'", "clock_tolerance = 1"} {
		wantError(t, tryExec(t, c, "SET snowflake."+setting), "42501", "permission denied")
	}
	exec(t, c, "SELECT snowflake_next(), uuidv7()") // anyone may make ids
	wantError(t, tryExec(t, c, "SELECT snowflake_reset_mark('2026-01-01')"), "42501")
	wantError(t, tryExec(t, c, "SELECT setval('snowflake_mark', 1)"), "42501")
}

// A setting is given before the library is there, by whatever way; it counts.
func TestSettingsGivenBeforeTheLibrary(t *testing.T) {
	database := newDatabase(t, shared)
	admin := shared.Connect(t, "postgres")
	exec(t, admin, "ALTER DATABASE "+database+" SET snowflake.worker_id = 77")
	exec(t, admin, "ALTER DATABASE "+database+" SET snowflake.epoch = '2024-06-01'")
	c := shared.Connect(t, database)
	id := one[int64](t, c, "SELECT snowflake_next()")
	if id>>12&1023 != 77 {
		t.Errorf("worker %d", id>>12&1023)
	}
	if !one[bool](t, c, "SELECT snowflake_timestamp($1, '2024-06-01Z') BETWEEN now() - interval '1 min' AND clock_timestamp()", id) {
		t.Error("the id does not count from the epoch that was set")
	}
	c = shared.Connect(t, database)
	exec(t, c, "SET snowflake.worker_id = 78")
	if id := one[int64](t, c, "SELECT snowflake_next()"); id>>12&1023 != 78 {
		t.Errorf("worker %d", id>>12&1023)
	}
}

// An invalid one is refused when ids are asked for, never replaced by the default in silence.
func TestInvalidSettingsGivenBeforeTheLibrary(t *testing.T) {
	for setting, value := range map[string]string{
		"worker_id": "1024", "worker_range": "5-2000", "epoch": "tomorrow", "clock_tolerance": "1h",
	} {
		for name, preload := range map[string]string{"preloaded": "snowflake", "not preloaded": ""} {
			t.Run(setting+" "+name, func(t *testing.T) {
				node := backend.Start(t, cluster.Config{Name: "bad", Settings: map[string]string{
					"snowflake." + setting: value, "shared_preload_libraries": preload,
				}})
				database := newDatabase(t, node)
				c := node.Connect(t, database)
				for range 2 {
					err := tryExec(t, c, "SELECT snowflake_next()")
					wantError(t, err, "22023", "snowflake."+setting, value, "postgresql.conf")
					exec(t, c, "RESET ALL")
				}
				exec(t, c, "SELECT uuidv7()")
				node.Set(t, map[string]string{"snowflake." + setting: map[string]string{
					"worker_id": "7", "worker_range": "7-9", "epoch": "2025-01-01", "clock_tolerance": "1s"}[setting]})
				node.Reload(t)
				exec(t, node.Connect(t, database), "SELECT snowflake_next()")
			})
		}
	}
}

func TestWorkerRange(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "range", Settings: map[string]string{"snowflake.worker_range": "5-6"}})
	database := newDatabase(t, node)
	a, b, c := node.Connect(t, database), node.Connect(t, database), node.Connect(t, database)
	worker := "SELECT snowflake_worker_id(snowflake_next())"
	if got := one[int](t, a, worker); got != 5 {
		t.Errorf("the first lease is %d", got)
	}
	if got := one[int](t, b, worker); got != 6 {
		t.Errorf("the second lease is %d", got)
	}
	// Used up (daniel3303/Equibles#4283): a prompt error, the others go on.
	wantError(t, tryExec(t, c, worker), "SF002", "no worker id available", "All 2 worker ids", "5-6", "snowflake_release()")
	exec(t, a, worker)
	exec(t, b, worker)
	if !one[bool](t, a, "SELECT snowflake_release()") || one[bool](t, a, "SELECT snowflake_release()") {
		t.Error("release gives true once, then false")
	}
	if got := one[int](t, c, worker); got != 5 {
		t.Errorf("the freed lease is 5, not %d", got)
	}
	// A new range moves sessions whose worker lies outside.
	node.Set(t, map[string]string{"snowflake.worker_range": "1023"})
	node.Reload(t)
	before := one[int64](t, c, "SELECT snowflake_next()")
	for one[string](t, c, "SHOW snowflake.worker_range") != "1023" {
	}
	after := one[int64](t, c, "SELECT snowflake_next()")
	if after>>12&1023 != 1023 || after <= before {
		t.Errorf("worker %d after the range changed; %d follows %d", after>>12&1023, after, before)
	}
	wantError(t, tryExec(t, b, worker), "SF002", "All 1 worker ids")
}

// Of three leases the middle one ends; the next session gets exactly that (yitter/IdGenerator#110).
func TestFreedLeaseIsTakenNext(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "freed"})
	database := newDatabase(t, node)
	worker := "SELECT snowflake_worker_id(snowflake_next())"
	a, b, c := node.Connect(t, database), node.Connect(t, database), node.Connect(t, database)
	for i, session := range []int{one[int](t, a, worker), one[int](t, b, worker), one[int](t, c, worker)} {
		if session != i {
			t.Fatalf("session %d leases %d", i, session)
		}
	}
	exec(t, a, fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid(t, b)))
	waitFor(t, a, fmt.Sprintf("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %d)", pid(t, b)))
	if got := one[int](t, node.Connect(t, database), worker); got != 1 {
		t.Errorf("the next session leases %d", got)
	}
	// DISCARD ALL and pg_advisory_unlock_all() drop a lease; it is noticed (pgbouncer#102, wolverine#2602), also where
	// the next lock takes the lease's place in the session's lock table.
	for _, drop := range []string{"DISCARD ALL", "SELECT pg_advisory_unlock_all()",
		"SELECT pg_advisory_unlock_all(), pg_advisory_lock(42)"} {
		exec(t, a, drop)
		a.DeallocateAll(background(t)) // DISCARD ALL dropped what pgx had prepared
		other := node.Connect(t, database)
		if got := one[int](t, other, worker); got != 0 {
			t.Errorf("after %s a new session leases %d, not the freed 0", drop, got)
		}
		if got := one[int](t, a, worker); got == 0 {
			t.Errorf("after %s two sessions use worker 0", drop)
		}
		exec(t, other, "SELECT snowflake_release()")
		exec(t, a, "SELECT snowflake_release()")
		exec(t, a, worker)
	}
	if lost := one[int64](t, a, "SELECT leases_lost FROM snowflake_stats()"); lost != 3 {
		t.Errorf("%d leases lost", lost)
	}
}
