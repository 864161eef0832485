package gen

// UUID7Parse takes a version 7 UUID (RFC 9562 section 5.7) apart: createdUs in Unix microseconds, a whole number
// of milliseconds from 1970 to the year 10889; randA its 12 bits after the version, 0..4095; randB its 62 bits
// after the variant, 0..2^62-1. What the random parts hold is up to the maker; ours and PostgreSQL's put the time
// within the millisecond into randA. Not ok, and all 0, unless the variant is the RFC's and the version is 7.
func UUID7Parse(u [16]byte) (createdUs int64, randA int32, randB int64, ok bool) {
	if createdUs, ok = UUID7Time(&u); !ok {
		return 0, 0, 0, false
	}
	high, low := words(&u)
	return createdUs, int32(high & uuid7MaxRandA), int64(low & uuid7MaxRandB), true
}

const (
	uuid7MaxRandA = 1<<12 - 1
	uuid7MaxRandB = 1<<62 - 1
)

// UUID7Min is the smallest version 7 UUID of the millisecond of us, Unix microseconds floored to milliseconds:
// rand_a and rand_b all zeros, version and variant as the RFC wants them. Code is TimeOutOfRange before 1970,
// past the last millisecond of 48 bits (10889-08-02T05:31:50.655Z) and for the infinities.
func UUID7Min(us int64) ([16]byte, Code) { return uuid7Bound(us, 0, 0) }

// UUID7Max is the largest version 7 UUID of the millisecond of us: UUID7Min with rand_a and rand_b all ones.
func UUID7Max(us int64) ([16]byte, Code) { return uuid7Bound(us, uuid7MaxRandA, uuid7MaxRandB) }

func uuid7Bound(us int64, randA, randB uint64) ([16]byte, Code) {
	if us < 0 || us/usPerMs > uuid7MaxMs {
		return [16]byte{}, TimeOutOfRange
	}
	return uuid7(uint64(us/usPerMs), randA, randB), Issued
}
