package gen

// Fingerprint derives a worker id, 0..1023, from bytes that identify a server: FNV-1a of 64 bits, folded to ten. The
// same bytes give the same id for ever. It is advice for set-up scripts, no claim: of n servers, two share an id
// with odds of about n(n-1)/2 in 1024.
func Fingerprint(identity []byte) int32 {
	hash := uint64(14695981039346656037)
	for _, b := range identity {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	hash ^= hash >> 32
	hash ^= hash >> 16
	return int32((hash ^ hash>>10) & MaxWorker)
}
