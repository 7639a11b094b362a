// The connection to the sandbox: events in, acts out.

const SILENCE_MS = 25_000;

// Calls `onFrame(frame, whole)` for every frame and `onState("live" | "lost")`; reconnects by itself, for ever.
export function listen(onFrame, onState) {
  let source = null;
  let pause = 500;
  let watchdog = 0;

  const open = () => {
    source = new EventSource("/sandbox/events");
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(lose, SILENCE_MS);
    };
    source.addEventListener("hello", (event) => {
      pause = 500;
      alive();
      onState("live");
      onFrame(JSON.parse(event.data), true);
    });
    source.addEventListener("change", (event) => {
      alive();
      onFrame(JSON.parse(event.data), false);
    });
    source.addEventListener("beat", alive);
    source.addEventListener("error", lose);
  };
  const lose = () => {
    clearTimeout(watchdog);
    source.close();
    onState("lost");
    setTimeout(open, pause);
    pause = Math.min(pause * 1.6, 5_000);
  };
  open();
}

// Posts an act. Rejects with an Error whose message can be shown.
export async function act(path, body) {
  let response;
  try {
    response = await fetch(`/sandbox/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-placet-sandbox": "1" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The sandbox cannot be reached.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || "That did not work.");
  return answer;
}
