package config

import (
	"strings"
)

// nearest returns the known name that a person most likely meant, or "".
func nearest(name string, known []string) string {
	bare := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(s))
	}
	best, bestDistance := "", len(name)
	for _, candidate := range known {
		if bare(candidate) == bare(name) {
			return candidate
		}
		if d := distance(strings.ToLower(name), candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if len(name) <= 64 && bestDistance <= max(1, min(len(name), len(best))/3) {
		return best
	}
	return ""
}

// distance counts insertions, deletions, replacements and swaps of neighbours.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
