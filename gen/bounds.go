package gen

// MinID is the smallest id that can carry the time us, MaxID the largest: those of its millisecond with worker and
// sequence all zeros and all ones. Times and epoch are Unix microseconds, the smallest and largest int64 standing
// for -infinity and infinity; the millisecond is floor((us-epochUs)/1000), as Parse counts it, so for an epoch in
// whole milliseconds us is floored to its own.
//
// They saturate instead of failing, so that a comparison with them is always right: before the epoch MinID is 0
// and MaxID -1 (every id lies above, none below), past the layout's last millisecond both are the largest int64.
// The one id that is the largest int64 is therefore not below MinID of any time.
func MinID(us, epochUs int64) int64 {
	millis, ok := millisSince(us, epochUs)
	switch {
	case !ok:
		return 0
	case millis > MaxMillis:
		return 1<<63 - 1
	}
	return int64(millis << timeShift)
}

// MaxID is the largest id that can carry the time us; see MinID for units and limits.
func MaxID(us, epochUs int64) int64 {
	millis, ok := millisSince(us, epochUs)
	switch {
	case !ok:
		return -1
	case millis > MaxMillis:
		return 1<<63 - 1
	}
	return int64(millis<<timeShift | (1<<timeShift - 1))
}

// millisSince is how many whole milliseconds after the epoch a time lies, both in Unix microseconds; not ok before
// it. The difference of two int64 may need 64 bits, so it is taken unsigned.
func millisSince(us, epochUs int64) (millis uint64, ok bool) {
	if us < epochUs || us == -1<<63 {
		return 0, false
	}
	if us == 1<<63-1 {
		return 1<<64 - 1, true
	}
	return (uint64(us) - uint64(epochUs)) / usPerMs, true
}
