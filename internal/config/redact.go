package config

import "strings"

// hideSecrets makes a line of text fit to show: the password of a URL and the
// literal value of a field whose name says that it is secret become ***.
// References such as ${CRM_TOKEN} stay: they name a secret and do not hold it.
func hideSecrets(text string) string {
	return hideFields(hideUserinfo(text))
}

func hideUserinfo(text string) string {
	var out strings.Builder
	for {
		i := strings.Index(text, "://")
		if i < 0 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:i+3])
		text = text[i+3:]
		end := strings.IndexAny(text, " \t\"'")
		if end < 0 {
			end = len(text)
		}
		at := strings.LastIndexByte(text[:end], '@')
		if at < 0 {
			continue
		}
		name, password, has := strings.Cut(text[:at], ":")
		out.WriteString(name)
		if has {
			out.WriteString(":" + hidden(password))
		}
		text = text[at:]
	}
}

func hideFields(text string) string {
	lower := lowerASCII(text)
	for _, name := range []string{"authorization", "password", "passwd", "secret", "token", "api-key", "api_key", "apikey"} {
		for from := 0; ; {
			i := strings.Index(lower[from:], name)
			if i < 0 {
				break
			}
			from += i + len(name)
			rest := text[from:]
			after := strings.TrimLeft(rest, "\"'")
			if after == "" || after[0] != ':' && after[0] != '=' {
				continue
			}
			start := len(text) - len(after) + 1
			end := len(text)
			if after[0] == '=' {
				if stop := strings.IndexAny(text[start:], "& \"'"); stop >= 0 {
					end = start + stop
				}
			}
			if value := text[start:end]; hidden(value) != value && strings.TrimSpace(value) != "" {
				space := value[:len(value)-len(strings.TrimLeft(value, " "))]
				text = text[:start] + space + "***" + text[end:]
				lower = lowerASCII(text)
			}
			from = min(from, len(lower))
		}
	}
	return text
}

// hidden is *** unless the text begins by referring to a secret.
func hidden(text string) string {
	bare := strings.TrimLeft(text, " \"'")
	for _, scheme := range []string{"bearer ", "basic ", "token "} {
		if len(bare) > len(scheme) && strings.EqualFold(bare[:len(scheme)], scheme) {
			bare = bare[len(scheme):]
		}
	}
	if strings.HasPrefix(bare, "${") {
		return text
	}
	return "***"
}

// lowerASCII keeps the length of the text, which strings.ToLower does not.
func lowerASCII(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
