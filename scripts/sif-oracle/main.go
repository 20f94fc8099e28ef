// Makes, signs and verifies SIF files by the library of Apptainer, for the tests of packfs-seal.
//
//	sif-oracle make IMAGE FILE ARCHITECTURE [NAME=DATA-FILE]...  IMAGE as the primary partition, then other objects
//	sif-oracle add FILE NAME=DATA-FILE                           one more object
//	sif-oracle sign FILE KEY.PEM                                 signs each group of objects
//	sif-oracle sign-pgp FILE                                     signs each group with a new OpenPGP key
//	sif-oracle verify FILE PUBLIC.PEM
package main

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/apptainer/sif/v2/pkg/integrity"
	"github.com/apptainer/sif/v2/pkg/sif"
	"github.com/sigstore/sigstore/pkg/signature"
)

// launchScript is the line by which Apptainer and Singularity start a file as a program.
const launchScript = "#!/usr/bin/env run-singularity\n"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sif-oracle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) >= 4 && args[0] == "make":
		return makeFile(args[1], args[2], args[3], args[4:])
	case len(args) == 3 && args[0] == "add":
		return addObject(args[1], args[2])
	case len(args) == 3 && args[0] == "sign":
		signer, err := signature.LoadSignerFromPEMFile(args[2], crypto.SHA256, nil)
		if err != nil {
			return err
		}
		return sign(args[1], integrity.OptSignWithSigner(signer))
	case len(args) == 2 && args[0] == "sign-pgp":
		entity, err := openpgp.NewEntity("test", "", "test@example.org", nil)
		if err != nil {
			return err
		}
		return sign(args[1], integrity.OptSignWithEntity(entity))
	case len(args) == 3 && args[0] == "verify":
		return verify(args[1], args[2])
	}
	return errors.New("see the head of main.go")
}

func makeFile(image, target, architecture string, others []string) error {
	data, err := os.Open(image)
	if err != nil {
		return err
	}
	defer data.Close()
	partition, err := sif.NewDescriptorInput(sif.DataPartition, data,
		sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, architecture))
	if err != nil {
		return err
	}
	inputs := []sif.DescriptorInput{partition}
	for _, other := range others {
		input, err := object(other)
		if err != nil {
			return err
		}
		inputs = append(inputs, input)
	}
	made, err := sif.CreateContainerAtPath(target, sif.OptCreateDeterministic(),
		sif.OptCreateWithLaunchScript(launchScript), sif.OptCreateWithDescriptors(inputs...))
	if err != nil {
		return err
	}
	return made.UnloadContainer()
}

// object describes an object of no particular kind: NAME=DATA-FILE.
func object(named string) (sif.DescriptorInput, error) {
	name, path, _ := strings.Cut(named, "=")
	data, err := os.ReadFile(path)
	if err != nil {
		return sif.DescriptorInput{}, err
	}
	return sif.NewDescriptorInput(sif.DataGeneric, bytes.NewReader(data), sif.OptObjectName(name))
}

func addObject(path, named string) error {
	container, err := sif.LoadContainerFromPath(path)
	if err != nil {
		return err
	}
	input, err := object(named)
	if err != nil {
		return err
	}
	if err := container.AddObject(input); err != nil {
		return err
	}
	return container.UnloadContainer()
}

func sign(path string, key integrity.SignerOpt) error {
	container, err := sif.LoadContainerFromPath(path)
	if err != nil {
		return err
	}
	signer, err := integrity.NewSigner(container, key, integrity.OptSignDeterministic())
	if err != nil {
		return err
	}
	if err := signer.Sign(); err != nil {
		return err
	}
	return container.UnloadContainer()
}

func verify(path, key string) error {
	container, err := sif.LoadContainerFromPath(path, sif.OptLoadWithFlag(os.O_RDONLY))
	if err != nil {
		return err
	}
	verifier, err := signature.LoadVerifierFromPEMFile(key, crypto.SHA256)
	if err != nil {
		return err
	}
	task, err := integrity.NewVerifier(container, integrity.OptVerifyWithVerifier(verifier))
	if err != nil {
		return err
	}
	if err := task.Verify(); err != nil {
		return err
	}
	return container.UnloadContainer()
}
