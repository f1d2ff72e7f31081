/** Requests to the server. All addresses are relative to the document. */

import { answerFromReport, report } from "./report";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const AUTHOR = "rollout-author";
let loginName = "";

/** Who marks and corrects: the name that was typed here, or the login name that the server knows. */
export function author(): string {
  return stored(AUTHOR) || loginName;
}

export function setAuthor(name: string): void {
  store(AUTHOR, name.trim());
}

export function hasAuthor(): boolean {
  return stored(AUTHOR) !== null;
}

export function setLoginName(name: string): void {
  loginName = name;
}

export function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // a file:// document or a browser that keeps nothing
  }
}

export function store(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // kept for this page only
  }
}

/** `api/runs/x/trajectory?dataset=…`. Parts are encoded, so that an id may hold anything. */
export function address(path: readonly (string | number)[], query?: URLSearchParams): string {
  const text = query?.toString();
  return `api/${path.map((part) => encodeURIComponent(String(part))).join("/")}${text ? `?${text}` : ""}`;
}

export async function get<T>(path: readonly (string | number)[], query?: URLSearchParams, signal?: AbortSignal): Promise<T> {
  if (report) return answerFromReport<T>(report, path, query ?? new URLSearchParams());
  const answer = await request(address(path, query), signal ? { signal } : {});
  return (await answer.json()) as T;
}

export async function post<T>(path: readonly (string | number)[], body: unknown): Promise<T> {
  const answer = await request(address(path), writing("POST", body));
  const text = await answer.text();
  return (text ? JSON.parse(text) : null) as T;
}

export async function remove(path: readonly (string | number)[]): Promise<void> {
  await request(address(path), writing("DELETE", null));
}

/** A file that the server makes, with the name that the server gives it. */
export async function download(path: readonly (string | number)[], body: unknown, fallbackName: string): Promise<void> {
  const answer = await request(address(path), writing("POST", body));
  const disposition = answer.headers.get("Content-Disposition") ?? "";
  const encoded = /filename\*=UTF-8''([^;]+)/i.exec(disposition)?.[1];
  const name = encoded ? decodeURIComponent(encoded) : (/filename="([^"]+)"/i.exec(disposition)?.[1] ?? fallbackName);
  saveFile(await answer.blob(), name);
}

export function saveFile(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Where a picture of a run is. Reports hold their pictures as data: addresses. */
export function imageAddress(run: string, name: string): string {
  if (report) return report.images?.[name] ?? report.images?.[baseName(name)] ?? "";
  return address(["runs", run, "blobs", baseName(name)]);
}

/** Transcripts may give a picture's path; the server wants its name. */
function baseName(name: string): string {
  return name.split("/").at(-1) ?? name;
}

function writing(method: string, body: unknown): RequestInit {
  return {
    method,
    headers: {
      "Content-Type": "application/json",
      "X-Rollout": "1",
      "X-Rollout-Author": encodeURIComponent(author()),
    },
    body: body === null ? null : JSON.stringify(body),
  };
}

async function request(where: string, options: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(where, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Is rollout view still running?");
  }
  if (!answer.ok) throw new ApiError(answer.status, await errorText(answer));
  return answer;
}

async function errorText(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    const found = (JSON.parse(text) as { error?: unknown }).error;
    if (typeof found === "string") return found;
  } catch {
    // not JSON: shown as it is
  }
  return `${answer.status} ${answer.statusText}${text ? `: ${text.slice(0, 400)}` : ""}`;
}
