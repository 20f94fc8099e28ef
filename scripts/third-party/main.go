// Lists an image as scripts/third-party-readers.py wants it, through go-diskfs (SquashFS) or go-erofs:
// main go-diskfs|go-erofs IMAGE. A line of JSON an entry: path, type, and SHA-256 of a file.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"

	backend "github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/squashfs"
	"github.com/erofs/go-erofs"
)

type entry struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Size   int64  `json:"size,omitempty"`
	Sha    string `json:"sha,omitempty"`
	Target string `json:"target,omitempty"`
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "d"
	case mode&fs.ModeSymlink != 0:
		return "l"
	case mode&fs.ModeNamedPipe != 0:
		return "p"
	case mode&fs.ModeSocket != 0:
		return "s"
	case mode&fs.ModeCharDevice != 0:
		return "c"
	case mode&fs.ModeDevice != 0:
		return "b"
	}
	return "f"
}

func open(reader, image string) (fs.FS, error) {
	if reader == "go-erofs" {
		file, err := os.Open(image)
		if err != nil {
			return nil, err
		}
		return erofs.Open(file)
	}
	file, err := backend.OpenFromPath(image, true)
	if err != nil {
		return nil, err
	}
	return squashfs.Read(file, 0, 0, 0)
}

// go-erofs says it of a path, go-diskfs of an entry.
func target(root fs.FS, path string, found fs.DirEntry) (string, error) {
	if links, ok := root.(fs.ReadLinkFS); ok {
		return links.ReadLink(path)
	}
	info, err := found.Info()
	if err != nil {
		return "", err
	}
	if link, ok := info.(interface{ Readlink() (string, error) }); ok {
		return link.Readlink()
	}
	return "", nil
}

func list(root fs.FS, out *json.Encoder) error {
	return fs.WalkDir(root, ".", func(path string, found fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		entry := entry{Path: path, Kind: kind(found.Type())}
		switch entry.Kind {
		case "f":
			file, err := root.Open(path)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			defer file.Close()
			sum := sha256.New()
			entry.Size, err = io.Copy(sum, file)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			entry.Sha = hex.EncodeToString(sum.Sum(nil))
		case "l":
			entry.Target, err = target(root, path, found)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return out.Encode(entry)
	})
}

func main() {
	root, err := open(os.Args[1], os.Args[2])
	if err == nil {
		err = list(root, json.NewEncoder(os.Stdout))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
