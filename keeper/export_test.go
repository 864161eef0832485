package keeper

// Guards is what tests may switch off in a Holder, by name.
var Guards = []string{"validity", "margin", "from the sending", "floor", "until", "no renewal after the end"}

// Without switches a guard of a Holder off.
func (h *Holder) Without(guard string) {
	switch guard {
	case "validity":
		h.off.noValidity = true
	case "margin":
		h.off.noMargin = true
	case "from the sending":
		h.off.fromReceipt = true
	case "floor":
		h.off.noFloor = true
	case "until":
		h.off.noUntil = true
	case "no renewal after the end":
		h.off.renewEnded = true
	}
}
