package function

import (
	"unicode"
	"unicode/utf8"
)

// unshowable says what is wrong with a text of a person, such as a name; empty for a good one. Terminals, logs and pages
// of others show it. A character that controls a terminal or the direction of writing changes how the text around it
// looks, and a name that cannot be seen passes for another one.
//
// Marks of one direction (U+200E, U+200F) and joiners are allowed: some scripts and emoji need them.
func unshowable(text string) string {
	visible := text == ""
	for _, c := range text {
		switch {
		case unicode.IsControl(c), unicode.In(c, unicode.Zl, unicode.Zp):
			return "the text must not have control characters or line separators"
		case unicode.Is(unicode.Bidi_Control, c) && c != '\u200e' && c != '\u200f':
			return "the text must not have characters that change the direction of what follows"
		case c == utf8.RuneError: // what the parser makes of half a surrogate pair
			return "the text must not have halves of characters"
		}
		visible = visible || unicode.IsGraphic(c) && !unicode.IsSpace(c) && !unicode.IsMark(c) &&
			!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c)
	}
	if !visible {
		return "the text must have a character that can be seen"
	}
	return ""
}
