// A peer on the official Go SDK: `peer serve stdio`, `peer serve http PORT`, `peer call URL` or `peer call COMMAND ARG...`.
//
// The server has the five tools that every peer server here has: echo, add, count (progress), ask (elicitation) and
// fail. The client runs the journey that every peer client here runs, and prints what it saw as one line of JSON. If
// PEER_AGAIN is set, it runs it again, with the same session, after each line on its standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sort"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoed struct {
	Text string `json:"text"`
}

type numbers struct {
	A int `json:"a"`
	B int `json:"b"`
}

type sum struct {
	Sum int `json:"sum"`
}

type limit struct {
	To int `json:"to"`
}

type question struct {
	Question string `json:"question"`
}

type nothing struct{}

func main() {
	var err error
	switch {
	case len(os.Args) > 2 && os.Args[1] == "serve":
		err = serve(os.Args[2:])
	case len(os.Args) > 2 && os.Args[1] == "call":
		err = call(os.Args[2:])
	default:
		err = errors.New("usage: peer serve stdio | serve http PORT | call TARGET")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	server := newServer()
	if args[0] == "stdio" {
		return server.Run(context.Background(), &mcp.StdioTransport{})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return http.ListenAndServe("127.0.0.1:"+args[1], handler)
}

func newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1.0.0"}, nil)
	isRead := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Returns the text.", Annotations: isRead},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoed) (*mcp.CallToolResult, any, error) {
			return text(in.Text), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "add", Description: "Returns the sum of two numbers.", Annotations: isRead},
		func(_ context.Context, _ *mcp.CallToolRequest, in numbers) (*mcp.CallToolResult, sum, error) {
			return nil, sum{in.A + in.B}, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "count", Description: "Counts, and reports each number as progress.", Annotations: isRead},
		func(ctx context.Context, req *mcp.CallToolRequest, in limit) (*mcp.CallToolResult, any, error) {
			for number := 1; number <= in.To; number++ {
				if token := req.Params.GetProgressToken(); token != nil {
					params := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(number), Total: float64(in.To)}
					if err := req.Session.NotifyProgress(ctx, params); err != nil {
						return nil, nil, err
					}
				}
			}
			return text(fmt.Sprintf("counted to %d", in.To)), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "ask", Description: "Asks the user a question and returns the answer.", Annotations: isRead}, ask)
	mcp.AddTool(server, &mcp.Tool{Name: "fail", Description: "Always fails.", Annotations: isRead},
		func(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, any, error) {
			return nil, nil, errors.New("it failed on purpose")
		})
	return server
}

// ask answers with what it needs to know; for older clients the SDK asks by a request of its own.
func ask(_ context.Context, req *mcp.CallToolRequest, in question) (*mcp.CallToolResult, any, error) {
	reply, ok := req.Params.InputResponses["answer"].(*mcp.ElicitResult)
	if !ok {
		schema := map[string]any{
			"type":       "object",
			"properties": map[string]any{"answer": map[string]any{"type": "string"}},
			"required":   []string{"answer"},
		}
		params := &mcp.ElicitParams{Message: in.Question, RequestedSchema: schema}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"answer": params}, RequestState: "asked"}, nil, nil
	}
	if reply.Action != "accept" {
		return text(reply.Action), nil, nil
	}
	return text(fmt.Sprintf("accept: %v", reply.Content["answer"])), nil, nil
}

func text(value string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: value}}}
}

type seen struct {
	mu        sync.Mutex
	Revision  string         `json:"revision"`
	Tools     []string       `json:"tools"`
	Schemas   map[string]any `json:"schemas"`
	Results   map[string]any `json:"results"`
	Progress  []float64      `json:"progress"`
	Questions []string       `json:"questions"`
}

func call(target []string) error {
	ctx := context.Background()
	found := &seen{Schemas: map[string]any{}, Results: map[string]any{}}
	session, err := connect(ctx, target, found)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := journey(ctx, session, found); err != nil {
		return err
	}
	if _, again := os.LookupEnv("PEER_AGAIN"); !again {
		return nil
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		found.mu.Lock()
		found.Tools, found.Progress, found.Questions = nil, nil, nil
		found.mu.Unlock()
		if err := journey(ctx, session, found); err != nil {
			return err
		}
	}
	return nil
}

func journey(ctx context.Context, session *mcp.ClientSession, found *seen) error {
	found.Revision = session.InitializeResult().ProtocolVersion
	listed, err := session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	for _, tool := range listed.Tools {
		found.Tools = append(found.Tools, tool.Name)
		found.Schemas[tool.Name] = tool.InputSchema
	}
	sort.Strings(found.Tools)
	for _, each := range []*mcp.CallToolParams{
		{Name: "echo", Arguments: map[string]any{"text": "grüße\u2028"}},
		{Name: "add", Arguments: map[string]any{"a": 2, "b": 40}},
		{Name: "count", Arguments: map[string]any{"to": 3}},
		{Name: "ask", Arguments: map[string]any{"question": "Which colour?"}},
		{Name: "fail", Arguments: map[string]any{}},
	} {
		if each.Name == "count" {
			each.Meta = mcp.Meta{"progressToken": "count"}
		}
		result, err := session.CallTool(ctx, each)
		if err != nil {
			found.Results[each.Name] = map[string]any{"error": err.Error()}
			continue
		}
		found.Results[each.Name] = map[string]any{
			"content": result.Content, "structuredContent": result.StructuredContent, "isError": result.IsError,
		}
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	return json.NewEncoder(os.Stdout).Encode(found)
}

func connect(ctx context.Context, target []string, found *seen) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "go-client", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			found.mu.Lock()
			defer found.mu.Unlock()
			found.Questions = append(found.Questions, req.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "blue"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			found.mu.Lock()
			defer found.mu.Unlock()
			found.Progress = append(found.Progress, req.Params.Progress)
		},
	})
	options := &mcp.ClientSessionOptions{ProtocolVersion: os.Getenv("PEER_REVISION")}
	if strings.HasPrefix(target[0], "http") {
		return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: target[0]}, options)
	}
	return client.Connect(ctx, &mcp.CommandTransport{Command: exec.Command(target[0], target[1:]...)}, options)
}
