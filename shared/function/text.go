package function

import "unicode"

// unshowable says what is wrong with a text of a person, such as a name; empty for a good one. Terminals, logs and
// pages of others show it. A character that controls a terminal or the direction of writing changes how the text around
// it looks, and a name that differs from another one only in what cannot be seen passes for it.
func unshowable(text string) string {
	visible := text == ""
	var before rune
	for _, c := range text {
		switch {
		case unicode.IsControl(c), unicode.In(c, unicode.Zl, unicode.Zp):
			return "the text must not have control characters or line separators"
		case unicode.Is(unicode.Bidi_Control, c) && !isMark(c):
			return "the text must not have characters that change the direction of what follows"
		case unicode.Is(unicode.Cf, c) && !isMark(c) && !shapes(c, before):
			return "the text must not have characters that cannot be seen"
		}
		visible = visible || unicode.IsGraphic(c) && !unicode.IsSpace(c) && !unicode.IsMark(c) &&
			!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c)
		before = c
	}
	if !visible {
		return "the text must have a character that can be seen"
	}
	return ""
}

// isMark reports whether a character marks a place as written in one direction, as names in two scripts need it.
func isMark(c rune) bool { return c == '\u200e' || c == '\u200f' }

// shapes reports whether a format character belongs to the writing of the character before it. Examples: the joiners of
// Persian words and of emoji, and the spaces without width between Khmer words. Latin letters and digits have none.
func shapes(c, before rune) bool {
	const blackFlag = '\U0001f3f4' // tags after it make the flag of a region, as of Scotland
	tags := func(c rune) bool { return c >= '\U000e0020' && c <= '\U000e007f' }
	switch c {
	case '\u180e', '\u200b', '\u200c', '\u200d':
		return before > unicode.MaxASCII && !unicode.In(before, unicode.Latin, unicode.Cf)
	}
	return tags(c) && (before == blackFlag || tags(before)) || unicode.Is(unicode.Prepended_Concatenation_Mark, c)
}
