package gen

import (
	"bytes"
	"cmp"
	"encoding/base32"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// rfc4648 is base32hex of the standard library: what PostgreSQL 19's encode(int8send(id), 'base32hex') gives.
func rfc4648(id int64) string {
	return base32.HexEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(id)))
}

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		id   int64
		text string
	}{
		{0, "0000000000000"},
		{1, "0000000000002"}, // the last character carries four bits and a zero
		{15, "000000000000U"},
		{16, "0000000000010"},
		{4095, "00000000007VU"},
		{1 << 53, "00G0000000000"},
		{1541815603606036480, "2LIQ27R22UG00"}, // Wikipedia, Snowflake ID
		{175928847299117063, "09OGCMM10800E"},  // Discord documentation
		{math.MaxInt64, "FVVVVVVVVVVVU"},
	} {
		text, code := Encode(c.id)
		if code != Issued || string(text[:]) != c.text {
			t.Errorf("Encode(%d): got %s code %d, want %s", c.id, text, code, c.text)
		}
		if want := strings.TrimRight(rfc4648(c.id), "="); want != c.text {
			t.Errorf("RFC 4648 gives %s for %d, this table %s", want, c.id, c.text)
		}
		if id, code := Decode([]byte(c.text)); code != Issued || id != c.id {
			t.Errorf("Decode(%s): got %d code %d, want %d", c.text, id, code, c.id)
		}
	}
	for _, id := range []int64{-1, math.MinInt64} {
		if text, code := Encode(id); code != Negative || text != [TextLength]byte{} {
			t.Errorf("Encode(%d): got %q code %d, want Negative", id, text, code)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		text string
		id   int64
		code Code
	}{
		{"fvvvvvvvvvvvu", math.MaxInt64, Issued},
		{"fVvVvVvVvVvVu", math.MaxInt64, Issued},
		{"FVVVVVVVVVVVU===", math.MaxInt64, Issued},
		{"09ogcmm10800e===", 175928847299117063, Issued},

		{"", 0, BadText},
		{"===", 0, BadText},
		{"0", 0, BadText},
		{"000000000000", 0, BadText},   // short
		{"00000000000000", 0, BadText}, // long
		{"0000000000000=", 0, BadText}, // padding that is not whole
		{"0000000000000==", 0, BadText},
		{"0000000000000====", 0, BadText},
		{"000000000000====", 0, BadText},
		{"00000000000000==", 0, BadText},
		{"=0000000000000==", 0, BadText},
		{"000000000=000", 0, BadText},
		{"0000000000000\n", 0, BadText},
		{" 000000000000", 0, BadText},
		{"0000000000 00", 0, BadText},
		{"-000000000000", 0, BadText},
		{"000000000000W", 0, BadText}, // the alphabet ends with V
		{"W000000000000", 0, BadText},
		{"00000w0000000", 0, BadText},
		{"/000000000000", 0, BadText},
		{":000000000000", 0, BadText},
		{"@000000000000", 0, BadText},
		{"`000000000000", 0, BadText},
		{"000000000000\x00", 0, BadText},
		{"000000000000\xff", 0, BadText},
		{"\xc3\xa900000000000", 0, BadText},
		{"0000000000001", 0, BadText}, // the padding bit is set
		{"FVVVVVVVVVVVV", 0, BadText},
		{"FVVVVVVVVVVVV===", 0, BadText},
		{"VVVVVVVVVVVVV", 0, BadText},

		// bwmarrin/snowflake#42: past 2^63 a text became a negative id, past 2^64 a small one.
		{"G000000000000", 0, TextOutOfRange}, // 2^63
		{"g000000000000===", 0, TextOutOfRange},
		{"VVVVVVVVVVVVU", 0, TextOutOfRange}, // 2^64-1, which is -1
		{"10000000000000", 0, BadText},       // 2^64 and beyond take a fourteenth character
		{"9223372036854775808", 0, BadText},  // decimals are not this form
		{"0000000000000000000000", 0, BadText},
	} {
		if id, code := Decode([]byte(c.text)); code != c.code || id != c.id {
			t.Errorf("Decode(%q): got %d code %d, want %d code %d", c.text, id, code, c.id, c.code)
		}
	}
	if id, code := Decode(nil); code != BadText || id != 0 {
		t.Errorf("Decode(nil): got %d code %d", id, code)
	}
}

func TestDecodeEveryCharacterEverywhere(t *testing.T) {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVabcdefghijklmnopqrstuv"
	for place := range TextLength {
		for c := range 256 {
			text := []byte("0000000000000")
			text[place] = byte(c)
			want := BadText
			if digit := strings.IndexByte(alphabet, byte(c)); digit >= 0 {
				if digit > 31 {
					digit -= 22
				}
				switch {
				case place == 0 && digit > 15:
					want = TextOutOfRange
				case place < 12 || digit%2 == 0:
					want = Issued
				}
			}
			if _, code := Decode(text); code != want {
				t.Errorf("Decode(%q): code %d, want %d", text, code, want)
			}
		}
	}
}

func TestTextRoundTripAndOrder(t *testing.T) {
	previous, previousText := int64(0), [TextLength]byte{}
	for range 100_000 {
		id := rand.Int64() >> rand.IntN(63)
		text, code := Encode(id)
		if code != Issued || string(text[:])+"===" != rfc4648(id) {
			t.Fatalf("Encode(%d): got %s code %d, RFC 4648 gives %s", id, text, code, rfc4648(id))
		}
		for _, form := range []string{string(text[:]), strings.ToLower(string(text[:])), string(text[:]) + "==="} {
			if back, code := Decode([]byte(form)); code != Issued || back != id {
				t.Fatalf("Decode(%s): got %d code %d, want %d", form, back, code, id)
			}
		}
		if previousText != [TextLength]byte{} && bytes.Compare(previousText[:], text[:]) != cmp.Compare(previous, id) {
			t.Fatalf("%s and %s do not sort as %d and %d", previousText, text, previous, id)
		}
		previous, previousText = id, text
	}
}

func TestTextDoesNotAllocate(t *testing.T) {
	text := []byte("09OGCMM10800E===")
	if n := testing.AllocsPerRun(100, func() { Decode(text); Encode(175928847299117063) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "0000000000000", "FVVVVVVVVVVVU===", "g000000000000", "0000000000001", "09ogcmm10800e", "000000000000=", "\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		id, code := Decode(text)
		if !bytes.Equal(before, text) {
			t.Fatal("Decode changed its argument")
		}
		upper := bytes.ToUpper(bytes.TrimSuffix(text, []byte("===")))
		switch raw, err := base32.HexEncoding.WithPadding(base32.NoPadding).DecodeString(string(upper)); code {
		case Issued:
			again, _ := Encode(id)
			if id < 0 || !bytes.Equal(again[:], upper) {
				t.Fatalf("Decode(%q) = %d, which is %s", text, id, again)
			}
		case TextOutOfRange:
			if err != nil || len(raw) != 8 || raw[0] < 128 {
				t.Fatalf("Decode(%q): out of range, but it stands for %x, %v", text, raw, err)
			}
		case BadText:
			if err == nil && len(raw) == 8 && len(upper) == 13 && rfc4648(int64(binary.BigEndian.Uint64(raw)))[:13] == string(upper) {
				t.Fatalf("Decode(%q): bad, but it stands for %x", text, raw)
			}
		default:
			t.Fatalf("Decode(%q): code %d", text, code)
		}
	})
}
