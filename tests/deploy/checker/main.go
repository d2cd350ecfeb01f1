// The checker reads a chart or a Compose file as Helm, Kubernetes and Compose do, and prints as JSON what they make of it.
//
//	checker lint CHART VALUES      what helm lint says
//	checker render CHART VALUES    the objects that helm template makes; a field that Kubernetes does not know is an error
//	checker compose FILE           the project, checked against the Compose specification
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/releaseutil"
	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

const namespace = "pulsar"

type message struct {
	Severity int    `json:"severity"` // 1 information, 2 warning, 3 error
	Path     string `json:"path"`
	Text     string `json:"text"`
}

func main() {
	result, err := run(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) (any, error) {
	if len(arguments) == 2 && arguments[0] == "compose" {
		return compose(arguments[1])
	}
	if len(arguments) != 3 {
		return nil, fmt.Errorf("usage: checker lint|render CHART VALUES, checker compose FILE")
	}
	values, err := chartutil.ReadValuesFile(arguments[2])
	if err != nil {
		return nil, err
	}
	if arguments[0] == "lint" {
		found := []message{}
		for _, each := range lint.All(arguments[1], values, namespace, true).Messages {
			found = append(found, message{each.Severity, each.Path, each.Err.Error()})
		}
		return found, nil
	}
	return render(arguments[1], values)
}

func render(folder string, values chartutil.Values) (any, error) {
	chart, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "example", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := (engine.Engine{Strict: true}).Render(chart, all)
	if err != nil {
		return nil, err
	}
	notes, objects := []string{}, []json.RawMessage{}
	decoder, err := strict()
	if err != nil {
		return nil, err
	}
	for _, name := range sorted(files) {
		if path.Base(name) == "NOTES.txt" {
			notes = append(notes, files[name])
			continue
		}
		documents := releaseutil.SplitManifests(files[name])
		for _, key := range sorted(documents) {
			if strings.TrimSpace(documents[key]) == "" {
				continue
			}
			decoded, _, err := decoder.Decode([]byte(documents[key]), nil, nil)
			if err == nil {
				err = restricted(decoded)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, documents[key])
			}
			object, err := yaml.YAMLToJSONStrict([]byte(documents[key]))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			objects = append(objects, object)
		}
	}
	return map[string]any{"notes": strings.Join(notes, "\n"), "objects": objects}, nil
}

func strict() (runtime.Decoder, error) {
	kinds := runtime.NewScheme()
	if err := scheme.AddToScheme(kinds); err != nil {
		return nil, err
	}
	if err := monitoring.AddToScheme(kinds); err != nil {
		return nil, err
	}
	return serializer.NewCodecFactory(kinds, serializer.EnableStrict).UniversalDeserializer(), nil
}

// restricted returns what a Deployment's pods violate of the Pod Security Standard of that name.
func restricted(object runtime.Object) error {
	deployment, found := object.(*apps.Deployment)
	if !found {
		return nil
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		return err
	}
	pod := deployment.Spec.Template
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
	if !result.Allowed {
		return fmt.Errorf("not restricted: %s", result.ForbiddenDetail())
	}
	return nil
}

func sorted(texts map[string]string) []string {
	names := []string{}
	for name := range texts {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func compose(file string) (any, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithInterpolation(true), cli.WithResolvedPaths(true))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}
