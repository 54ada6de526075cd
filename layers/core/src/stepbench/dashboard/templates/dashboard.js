"use strict";
/*
What the pages do beyond what they say: they follow a run while it goes on, check a plan as it is typed, and, where
callers have tokens, fetch each other with the token. Without this script they are whole, if less quick.
*/
(() => {
  const SHELL = "shell" in document.documentElement.dataset;
  const TOKEN = "stepbench-token";
  /* On the user's machine all pages are below a path of their own, which nobody else knows. */
  const ROOT = new URL(document.currentScript.src).pathname.replace("/dashboard/assets/dashboard.js", "");
  const LOOK_MS = 2_000, LIST_MS = 5_000, HIDDEN_MS = 20_000, MOST_MS = 60_000;
  const TYPED_MS = 400, LIMIT_MS = 30_000;
  const MOST_FILE_BYTES = 4 * 1024 * 1024;
  const MOST_SAMPLES = 120, STALE_MS = 6_000;
  const NONE = "–";
  const main = () => document.getElementById("main");
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  let shown = 0; // counts pages: what was asked for an earlier one is dropped

  const ask = (path, options = {}) => {
    const headers = { ...options.headers };
    if (SHELL) headers.Authorization = `Bearer ${sessionStorage.getItem(TOKEN) ?? ""}`;
    return fetch(path, { cache: "no-store", signal: AbortSignal.timeout(LIMIT_MS), ...options, headers });
  };
  const say = (text) => {
    const place = document.getElementById("spoken");
    if (place && place.textContent !== text) place.textContent = text;
  };
  const count = (value) => (value === null || value === undefined ? NONE : value.toLocaleString("en-US"));
  const rate = (value) => (value === null ? NONE : value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 1 : 0 }));
  const events = (value) => (value === null ? NONE : `${count(value)} ${value === 1 ? "event" : "events"}`);
  const span = (seconds) => {
    const whole = Math.round(seconds);
    if (whole < 60) return `${whole} s`;
    const minutes = Math.floor(whole / 60);
    return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  };
  const timeOf = (sample) => sample.at.slice(11, 19);
  const clock = (iso) => `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;

  /* --- pages that change while one looks ------------------------------------------------------------------------ */

  let wake = null; // looks again at once
  async function repeat(page, everyMs, look) {
    let failed = 0;
    while (page === shown) {
      const pause = (document.hidden ? HIDDEN_MS : everyMs) * 2 ** Math.min(failed, 5);
      await new Promise((done) => {
        wake = done;
        setTimeout(done, Math.min(pause, MOST_MS));
      });
      if (page !== shown) return;
      try {
        if (!(await look())) return;
        if (failed) say("");
        failed = 0;
      } catch {
        failed += 1;
        say("No answer; trying again.");
      }
    }
  }
  document.addEventListener("visibilitychange", () => document.hidden || wake?.());

  const parsed = async (answer) => new DOMParser().parseFromString(await answer.text(), "text/html");
  /* Only these are pages: the API's other answers quote what they were asked for, and a link may ask for anything. */
  const isPage = (answer) => answer.headers.get("Content-Type")?.startsWith("text/html") ?? false;
  const own = () => {
    if (!SHELL) return location.pathname + location.search;
    const asked = location.hash.slice(1);
    const url = new URL(location.origin + (asked.startsWith("/") ? asked : "/dashboard")); // which follows ".."
    return /^\/(dashboard(\/|$)|$)/.test(url.pathname) ? url.pathname + url.search : "/dashboard";
  };

  /* What one has opened stays open where it is shown again: the same of another run was not opened. */
  function put(fresh, old) {
    const named = (each) => each.querySelector("summary").textContent;
    const opened = fresh.dataset.run === old.dataset.run ? all("details[open]", old).map(named) : [];
    for (const each of all("details", fresh)) each.open ||= opened.includes(named(each));
    old.replaceWith(document.adoptNode(fresh));
  }

  /* Takes a page's parts that change; what one is typing stays. */
  async function refresh(page) {
    const answer = await ask(own());
    if (!answer.ok || !isPage(answer)) throw new Error(String(answer.status));
    const fresh = (await parsed(answer)).getElementById("main");
    if (page !== shown || !fresh) return false;
    for (const part of fresh.querySelectorAll("[data-refreshed]")) {
      const old = document.getElementById(part.id);
      if (old && old.innerHTML !== part.innerHTML && !old.contains(document.activeElement)) put(part, old);
    }
    return "goingOn" in fresh.dataset;
  }

  function follow(page) {
    const run = main().dataset.run;
    const samples = [];
    all("[data-scripted]").forEach((part) => { part.hidden = false; });
    const look = async () => {
      const answer = await ask(`${ROOT}/runs/${run}`);
      if (!answer.ok) throw new Error(String(answer.status));
      const view = await answer.json();
      if (page !== shown) return false;
      if (view.state !== main().dataset.state) {
        await show(own(), `The run is ${view.state}.`);
        return false;
      }
      if (view.progress) tell(view.progress, samples);
      else if (view.queue) await refresh(page);
      return true;
    };
    repeat(page, LOOK_MS, look);
    wake?.();
  }

  function tell(now, samples) {
    const last = samples.at(-1);
    if (!last || now.at !== last.at) samples.push({ ...now, ...rates(now, last), seenMs: performance.now() });
    samples.splice(0, samples.length - MOST_SAMPLES);
    const newest = samples.at(-1);
    const stale = performance.now() - newest.seenMs > STALE_MS; // the writers have ended
    const texts = {
      percent: `${Math.round(100 * now.share)} %`,
      activity: now.activity,
      left_s: `about ${span(now.left_s)}`,
      trial: now.trial === null ? NONE : `${now.trial + 1} of ${now.trials}: ${now.trial_name}`,
      phase: now.phase || NONE,
      sent: now.trial === null ? NONE : `${count(now.sent)} of ${count(now.planned)}`,
      received: count(now.received),
      lag: events(now.lag),
      errors: count(now.errors),
      sent_per_s: stale ? NONE : rate(newest.sentPerS),
      received_per_s: stale ? NONE : rate(newest.receivedPerS),
      at: clock(now.at),
    };
    for (const [name, text] of Object.entries(texts)) {
      const place = document.querySelector(`[data-field="${name}"]`);
      if (place) place.textContent = text;
    }
    const bar = document.querySelector("[data-field=share]");
    if (bar) bar.value = now.share;
    draw(samples);
  }

  function rates(now, last) {
    const seconds = last ? (Date.parse(now.at) - Date.parse(last.at)) / 1000 : 0;
    if (!(seconds > 0) || now.trial === null || last.trial !== now.trial) return { sentPerS: null, receivedPerS: null };
    const both = now.received !== null && last.received !== null;
    return {
      sentPerS: Math.max(0, now.sent - last.sent) / seconds,
      receivedPerS: both ? Math.max(0, now.received - last.received) / seconds : null,
    };
  }

  function draw(samples) {
    const plot = document.getElementById("rates");
    if (!plot) return;
    plot.closest("figure").hidden = samples.filter((each) => each.sentPerS !== null).length < 2; // one point is no line
    const most = Math.max(1, ...samples.flatMap((each) => [each.sentPerS ?? 0, each.receivedPerS ?? 0]));
    const times = samples.map((each) => Date.parse(each.at));
    const spanMs = Math.max(1, times.at(-1) - times[0]);
    const path = (name) => {
      let pen = "M";
      return samples.map((each, place) => {
        if (each[name] === null) { pen = "M"; return ""; }
        const point = `${pen}${(4 + (472 * (times[place] - times[0])) / spanMs).toFixed(1)} ${(116 - (98 * each[name]) / most).toFixed(1)}`;
        pen = "L";
        return point;
      }).join("");
    };
    const [offered, received] = plot.querySelectorAll(".line");
    offered.setAttribute("d", path("sentPerS"));
    received.setAttribute("d", path("receivedPerS"));
    const edges = [`${rate(most)}/s`, `${timeOf(samples[0])} UTC`, `${timeOf(samples.at(-1))} UTC`];
    plot.querySelectorAll("text").forEach((place, index) => { place.textContent = edges[index]; });
    const rows = [...samples].reverse().map((each) => {
      const row = document.createElement("tr");
      const cells = [timeOf(each), rate(each.sentPerS), rate(each.receivedPerS), count(each.lag)];
      row.append(...cells.map((text, place) => {
        const cell = document.createElement(place ? "td" : "th");
        if (place) cell.className = "number";
        else cell.scope = "row";
        cell.textContent = text;
        return cell;
      }));
      return row;
    });
    document.getElementById("rate-rows").replaceChildren(...rows);
  }

  /* --- plans that are checked as they are typed ------------------------------------------------------------------ */

  const target = (form) => new URL(form.getAttribute("action"), location.href).pathname; // a button is called action, too
  const encoded = (form, fields) => (form.enctype === "multipart/form-data" ? fields : new URLSearchParams(fields));

  /* The stack says what it would say to the form without this script; a file of rows it keeps, and names in the plan. */
  function checkAsTyped(form) {
    let timer = 0, number = 0;
    const outcome = form.querySelector("[data-outcome]"), file = form.querySelector("[type=file]");
    const check = async () => {
      const mine = ++number;
      try {
        if (file?.files[0]?.size > MOST_FILE_BYTES) throw new Error("The file is larger than 4 MB: upload it by POST /values, and give its key in the plan.");
        const fields = new FormData(form);
        fields.set("action", "outcome");
        const answer = await ask(target(form), { method: "POST", body: encoded(form, fields) });
        const fresh = isPage(answer) ? await parsed(answer) : null;
        if (mine !== number) return;
        const found = fresh?.querySelector("[data-outcome]");
        if (!found) throw new Error(fresh?.querySelector("main p")?.textContent ?? `It could not be checked: status ${answer.status}.`);
        outcome.replaceChildren(...found.childNodes);
        const text = fresh.querySelector("[name=document]").value;
        if (file?.files.length && text !== form.elements.document.value) {
          form.elements.document.value = text;
          file.value = "";
        }
      } catch (error) {
        if (mine === number) outcome.replaceChildren(line("p", error.message, "notice missed"));
      }
    };
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(check, TYPED_MS);
      const edit = form.querySelector("[data-edit]");
      if (edit) edit.href = `${ROOT}/dashboard/plans/${encodeURIComponent(form.elements.plan.value)}`;
    });
  }

  const line = (tag, text, className = "") => Object.assign(document.createElement(tag), { textContent: text, className });

  /* --- moving between pages: by itself only in the page that holds a token ---------------------------------------- */

  async function show(path, spoken = "", options = {}) {
    const page = ++shown;
    const answer = await ask(path, options);
    if (SHELL && [401, 403].includes(answer.status) && !isPage(answer)) {
      sessionStorage.removeItem(TOKEN);
      signIn("The token was refused: it may have ended, or name no team.");
      return;
    }
    const fresh = isPage(answer) ? await parsed(answer) : null;
    const none = () => Object.assign(line("main", `No page came, but status ${answer.status}.`), { id: "main", tabIndex: -1 });
    const part = fresh ? fresh.getElementById("main") : none();
    if (page !== shown || !part) return;
    put(part, main());
    document.title = fresh?.title ?? "Stepbench";
    const at = answer.redirected ? new URL(answer.url) : null;
    if (SHELL && at) history.replaceState(null, "", `#${at.pathname}${at.search}`);
    if (spoken) say(spoken);
    else main().focus();
    prepare();
  }

  let shellPage = null;
  function signIn(why = "") {
    shown += 1;
    if (!main().querySelector("#sign-in")) main().replaceWith(shellPage.cloneNode(true));
    document.getElementById("refused").textContent = why;
    document.getElementById("sign-in").addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(TOKEN, new FormData(event.target).get("token").trim());
      show(own());
    });
  }

  async function openDocument(path) {
    const answer = await ask(path);
    const found = await answer.json();
    if (answer.ok) location.assign(found.url);
    else say(found.detail ?? "There is no such document.");
  }

  function lead(event) {
    const link = event.target.closest("a[href]");
    if (!link || link.origin !== location.origin || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.dataset.document) {
      openDocument(`/dashboard/runs/${main().dataset.run}/links/${link.dataset.document}`);
    } else if (link.getAttribute("href").startsWith("#")) {
      document.getElementById(link.hash.slice(1))?.focus();
    } else {
      location.hash = link.pathname + link.search;
    }
  }

  function send(event) {
    const form = event.target;
    if (form.id === "sign-in") return;
    event.preventDefault();
    const fields = encoded(form, new FormData(form, event.submitter));
    const path = target(form);
    if (form.getAttribute("method") === "get") location.hash = `${path}?${fields}`;
    else show(path, "", { method: "POST", body: fields });
  }

  function prepare() {
    const page = ++shown;
    all("form[data-validate]").forEach(checkAsTyped);
    if (!("goingOn" in main().dataset)) return;
    if (main().dataset.page === "run") follow(page);
    else repeat(page, LIST_MS, () => refresh(page));
  }

  if (SHELL) {
    shellPage = main().cloneNode(true);
    addEventListener("hashchange", () => show(own()));
    document.addEventListener("click", lead);
    document.addEventListener("submit", send);
    if (sessionStorage.getItem(TOKEN)) show(own());
    else signIn();
  } else prepare();
})();
