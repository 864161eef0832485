package gen

// The text form of an id is base32hex (RFC 4648 section 7) of its eight bytes, most significant first, without
// padding: twelve characters of five bits and a thirteenth of four bits and a zero. The alphabet ascends, so texts
// of equal length sort byte by byte as the ids do.
const (
	TextLength = 13    // characters of the text form
	textPad    = "===" // what fills thirteen characters up to a multiple of eight
	textDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
)

// Encode gives the text form of an id: 13 upper-case characters, "0000000000000" to "FVVVVVVVVVVVU", equal to
// PostgreSQL 19's rtrim(encode(int8send(id), 'base32hex'), '='). Code is Negative for an id below 0.
func Encode(id int64) ([TextLength]byte, Code) {
	var text [TextLength]byte
	if id < 0 {
		return text, Negative
	}
	bits := uint64(id)
	text[TextLength-1] = textDigits[bits&15<<1]
	bits >>= 4
	for i := TextLength - 2; i >= 0; i-- {
		text[i] = textDigits[bits&31]
		bits >>= 5
	}
	return text, Issued
}

// Decode reads the text form of an id, the inverse of Encode: 13 characters in upper or lower case, alone or
// followed by the three "=" of the padded form. White space is not skipped. Code is BadText for another length,
// another character or a thirteenth character whose padding bit is set, and TextOutOfRange for a well-formed text
// of 2^63 or more, which begins with G to V and is no id.
func Decode(text []byte) (int64, Code) {
	if len(text) == TextLength+len(textPad) && string(text[TextLength:]) == textPad {
		text = text[:TextLength]
	}
	if len(text) != TextLength {
		return 0, BadText
	}
	var bits uint64
	for _, c := range text[:TextLength-1] {
		digit := textDigit(c)
		if digit > 31 {
			return 0, BadText
		}
		bits = bits<<5 | digit
	}
	last := textDigit(text[TextLength-1])
	if last > 31 || last&1 != 0 {
		return 0, BadText
	}
	bits = bits<<4 | last>>1
	if bits>>63 != 0 {
		return 0, TextOutOfRange
	}
	return int64(bits), Issued
}

// textDigit is the value of a base32hex character in either case, or more than 31.
func textDigit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'A' <= c && c <= 'V':
		return uint64(c-'A') + 10
	case 'a' <= c && c <= 'v':
		return uint64(c-'a') + 10
	}
	return 32
}
