/** API: the HTTP interface, with examples that can be copied and run. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { PageProps } from "../app";
import { addressOf, get, hasToken, type Entity, type EntityView } from "../client";
import { Failure, Loading } from "../parts/states";
import { useRemote } from "../remote";

interface Example { readonly title: string; readonly path: string; readonly parameters: Record<string, string> }

export function ApiPage({ run, runs, query }: PageProps): VNode {
  const found = useRemote<EntityView>(run.name, async (signal) => {
    const hub = (await get<{ entities: readonly Entity[] }>("entities", { run: run.name, q: "", limit: 1 }, signal)).entities[0];
    return get<EntityView>("entity", { run: run.name, entity: hub?.name ?? "", facts: 1, nodes: 1 }, signal);
  });
  const fact = found.value?.facts[0];
  const [head, relation, tail] = fact ? [fact.head.name, fact.relation.name, fact.tail.name] : ["HEAD", "RELATION", "TAIL"];
  const which: Record<string, string> = runs.length > 1 || query["run"] ? { run: run.name } : {};
  const examples: readonly Example[] = [
    { title: "Ask", path: "v1/ask", parameters: { head, relation, k: "3", ...which } },
    { title: "Explain", path: "v1/explain", parameters: { head, relation, tail, ...which } },
    { title: "Find a name", path: "v1/entities", parameters: { q: [...(fact?.head.label ?? head)].slice(0, 4).join(""), limit: "3", ...which } },
    { title: "Similar entities", path: "v1/similar", parameters: { entity: head, k: "3", ...which } },
  ];
  return (
    <>
      <h1>API</h1>
      <p class="lead">Programs can use everything on these pages through a versioned HTTP interface.</p>
      {hasToken() ? (
        <Code text={["openapi.json", "metrics"].map((path) => command(addressOf(path))).join("\n")} />
      ) : (
        <p class="links">
          <a href={addressOf("openapi.json")} target="_blank" rel="noopener">OpenAPI description</a>
          <a href={addressOf("metrics")} target="_blank" rel="noopener">Prometheus metrics</a>
          <a href={addressOf("healthz")} target="_blank" rel="noopener">Health</a>
        </p>
      )}
      {found.state === "failed" ? <Failure error={found.error} retry={found.retry} /> : found.state === "loading" ? <Loading lines={8} /> : examples.map((example) => <One key={example.title} {...example} />)}
      <h2>Python</h2>
      <Code text={`import conjoin\n\nrun = conjoin.open(${JSON.stringify(run.name)})  # the folder of the run\nfor answer in run.ask(${JSON.stringify(head)}, ${JSON.stringify(relation)}, k=3):\n    print(answer.label, answer.score)`} />
    </>
  );
}

/** A shell command. If a token is needed, it comes from the environment variable of the service. */
function command(address: string): string {
  return `curl ${hasToken() ? '-H "Authorization: Bearer $CONJOIN_TOKEN" ' : ""}'${address}'`;
}

function One({ title, path, parameters }: Example): VNode {
  const [reply, setReply] = useState<string | null>(null);
  const address = addressOf(path, parameters);
  const send = (): void => {
    get<unknown>(path.replace("v1/", ""), parameters).then(
      (value) => setReply(JSON.stringify(value, null, 2)),
      (error: unknown) => setReply(String(error)),
    );
  };
  return (
    <section>
      <h2>{title}</h2>
      <Code text={command(address)} />
      {reply === null ? <button type="button" onClick={send}>Send request</button> : <pre class="reply"><code>{reply}</code></pre>}
    </section>
  );
}

function Code({ text }: { text: string }): VNode {
  const [copied, setCopied] = useState(false);
  // Browsers offer no clipboard on plain HTTP from another machine.
  const clipboard: Clipboard | undefined = navigator.clipboard;
  const copy = (): void => {
    clipboard?.writeText(text).then(() => setCopied(true), () => setCopied(false));
  };
  return (
    <div class="code">
      <pre tabIndex={0}><code>{text}</code></pre>
      {clipboard && <button type="button" class="quiet" onClick={copy} aria-label="Copy">{copied ? "Copied" : "Copy"}</button>}
    </div>
  );
}
