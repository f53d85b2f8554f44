//! A peer on rmcp, the official Rust SDK: `peer serve stdio`, `peer serve http PORT`, `peer call URL` or
//! `peer call COMMAND ARG...`.
//!
//! The server has the five tools that every peer server here has: echo, add, count (progress), ask (elicitation) and
//! fail. The client runs the journey that every peer client here runs, and prints what it saw as one line of JSON. If
//! PEER_AGAIN is set, it runs it again, with the same session, after each line on its standard input.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex},
};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, RoleServer,
    ServerHandler, ServiceExt,
    model::*,
    service::{NotificationContext, RequestContext, RunningService},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", "stdio"] => {
            let transport = (tokio::io::stdin(), tokio::io::stdout());
            Server.serve(transport).await?.waiting().await?;
            Ok(())
        }
        ["serve", "http", port] => serve_http(port).await,
        ["call", target @ ..] if !target.is_empty() => call(target).await,
        _ => Err("usage: peer serve stdio | serve http PORT | call TARGET".into()),
    }
}

async fn serve_http(port: &str) -> Result<(), Failure> {
    let service = StreamableHttpService::new(
        || Ok(Server),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

#[derive(Clone)]
struct Server;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![
            tool("echo", "Returns the text.", json!({ "text": { "type": "string" } })),
            tool(
                "add",
                "Returns the sum of two numbers.",
                json!({ "a": { "type": "integer" }, "b": { "type": "integer" } }),
            ),
            tool(
                "count",
                "Counts, and reports each number as progress.",
                json!({ "to": { "type": "integer" } }),
            ),
            tool(
                "ask",
                "Asks the user a question and returns the answer.",
                json!({ "question": { "type": "string" } }),
            ),
            tool("fail", "Always fails.", json!({})),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given = Value::Object(request.arguments.clone().unwrap_or_default());
        match request.name.as_ref() {
            "echo" => Ok(text(given["text"].as_str().unwrap_or_default()).into()),
            "add" => {
                let sum = given["a"].as_i64().unwrap_or(0) + given["b"].as_i64().unwrap_or(0);
                Ok(CallToolResult::structured(json!({ "sum": sum })).into())
            }
            "count" => count(given["to"].as_i64().unwrap_or(0), context).await,
            "ask" => ask(given["question"].as_str().unwrap_or_default(), request, context).await,
            "fail" => {
                let content = vec![ContentBlock::text("it failed on purpose")];
                Ok(CallToolResult::error(content).into())
            }
            other => Err(ErrorData::invalid_params(format!("unknown tool {other}"), None)),
        }
    }
}

fn tool(name: &'static str, description: &'static str, properties: Value) -> Tool {
    let names: Vec<&String> = properties.as_object().into_iter().flat_map(|map| map.keys()).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": names });
    let Value::Object(schema) = schema else { unreachable!("a schema is an object") };
    Tool::new(name, description, Arc::new(schema)).with_annotations(ToolAnnotations::new().read_only(true))
}

fn text(value: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(value)])
}

async fn count(to: i64, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    if let Some(token) = context.meta.get_progress_token() {
        for number in 1..=to {
            let step = ProgressNotificationParam::new(token.clone(), number as f64).with_total(to as f64);
            let sent = context.peer.notify_progress(step).await;
            sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        }
    }
    Ok(text(&format!("counted to {to}")).into())
}

/// Asks in the words of the client's era: as a result that needs input, or by a request of its own.
async fn ask(
    question: &str,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let schema = json!({ "type": "object", "properties": { "answer": { "type": "string" } }, "required": ["answer"] });
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question.into(),
        requested_schema: serde_json::from_value(schema)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
    };
    if let Some(reply) = request.input_responses.as_ref().and_then(|all| all.get("answer")) {
        return Ok(said(serde_json::to_value(reply).unwrap_or_default()));
    }
    if context.meta.contains_key("io.modelcontextprotocol/protocolVersion") {
        let mut requests = InputRequests::new();
        requests.insert("answer".into(), InputRequest::Elicitation(ElicitRequest::new(params)));
        return Ok(InputRequiredResult::new(Some(requests), Some("asked".into())).into());
    }
    let reply = context.peer.create_elicitation(params).await;
    let reply = reply.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(said(serde_json::to_value(reply).unwrap_or_default()))
}

fn said(reply: Value) -> CallToolResponse {
    let action = reply["action"].as_str().unwrap_or_default();
    match reply["content"]["answer"].as_str() {
        Some(answer) if action == "accept" => text(&format!("accept: {answer}")).into(),
        _ => text(action).into(),
    }
}

#[derive(Clone, Default)]
struct Client {
    progress: Arc<Mutex<Vec<f64>>>,
    questions: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rust-client", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { message, .. } = &request {
            self.questions.lock().expect("no panic holds it").push(message.clone());
        }
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "answer": "blue" })))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().expect("no panic holds it").push(params.progress);
    }
}

async fn call(target: &[&str]) -> Result<(), Failure> {
    let client = Client::default();
    let lifecycle = match std::env::var("PEER_MODE").as_deref() {
        Ok("legacy") => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
    };
    let service = if target[0].starts_with("http") {
        let transport = StreamableHttpClientTransport::from_uri(target[0]);
        client.clone().serve_with_lifecycle(transport, lifecycle).await?
    } else {
        let mut command = tokio::process::Command::new(target[0]);
        command.args(&target[1..]);
        client.clone().serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?
    };
    journey(&service, &client).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while std::env::var_os("PEER_AGAIN").is_some() && lines.next_line().await?.is_some() {
        client.progress.lock().expect("no panic holds it").clear();
        client.questions.lock().expect("no panic holds it").clear();
        journey(&service, &client).await?;
    }
    service.cancel().await?;
    Ok(())
}

async fn journey(service: &RunningService<RoleClient, Client>, client: &Client) -> Result<(), Failure> {
    let listed = service.list_all_tools().await?;
    let schemas: BTreeMap<String, Value> =
        listed.iter().map(|tool| (tool.name.to_string(), Value::Object((*tool.input_schema).clone()))).collect();
    let mut results = BTreeMap::new();
    for (name, arguments) in [
        ("echo", json!({ "text": "grüße\u{2028}" })),
        ("add", json!({ "a": 2, "b": 40 })),
        ("count", json!({ "to": 3 })),
        ("ask", json!({ "question": "Which colour?" })),
        ("fail", json!({})),
    ] {
        let Value::Object(arguments) = arguments else { continue };
        let params = CallToolRequestParams::new(name).with_arguments(arguments);
        results.insert(name, match service.call_tool(params).await {
            Ok(result) => seen(serde_json::to_value(result)?),
            Err(error) => json!({ "error": error.to_string() }),
        });
    }
    let names: Vec<&String> = schemas.keys().collect();
    let progress = client.progress.lock().expect("no panic holds it").clone();
    let questions = client.questions.lock().expect("no panic holds it").clone();
    println!(
        "{}",
        json!({ "tools": names, "schemas": schemas, "results": results, "progress": progress, "questions": questions })
    );
    Ok(())
}

fn seen(mut result: Value) -> Value {
    if let Some(map) = result.as_object_mut() {
        map.remove("_meta");
        map.remove("resultType");
        map.entry("isError").or_insert(Value::Bool(false));
    }
    result
}
