package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// quotas lists the quotas that the default topology needs. Those that a young project must raise are bold.
func quotas(dir string) (table, error) {
	b, err := os.ReadFile(filepath.Join(dir, "quotas.csv"))
	if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		return nil, err
	}
	t := table{{"quota", "of each", "needed", "with a domain", "each further cell", "young project", "for"}}
	for _, line := range lines[1:] {
		metric, scope, why := line[1], line[2], line[6]
		var numbers [3]int
		for i := range numbers {
			if numbers[i], err = strconv.Atoi(line[3+i]); err != nil {
				return nil, fmt.Errorf("quota %s: %w", metric, err)
			}
		}
		further, has := line[8], numbers[2]
		needed := func(n int) string {
			if n > has {
				return fmt.Sprintf("**%d**", n)
			}
			return strconv.Itoa(n)
		}
		t = append(t, []string{
			"`" + metric + "`", scope, needed(numbers[0]), needed(numbers[1]), further, strconv.Itoa(has), why,
		})
	}
	return t, nil
}
