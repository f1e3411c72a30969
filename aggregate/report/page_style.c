/* page_style.c - the page's style sheet and script, line by line as they are sent. */
#include "aggregate/report/page_private.h"

static const char *const style[] = {
    ":root{color-scheme:light dark;--bg:#f6f7f9;--panel:#fff;--ink:#16181d;--soft:#5b6270;",
    "--line:#e1e4ea;--faint:#eff1f5;--accent:#2f6fde;--pos:#c8452f;--neg:#2f78b7;--ok:#2c8a57;",
    "--warn:#a86a00;--s0:#2f6fde;--s1:#c8452f;--s2:#2c8a57;--s3:#8452c9;--s4:#a86a00;",
    "--s5:#0f8f9a;--s6:#c23b8e;--s7:#5b6270;",
    "--t0:#7b8494;--t1:#2f6fde;--t2:#e0a030;--t3:#35a08a;--t4:#5aa9e6;--t5:#9a7fd1}",
    "@media(prefers-color-scheme:dark){:root{--bg:#101216;--panel:#181b21;--ink:#e8eaee;",
    "--soft:#9aa2b1;--line:#2a2f38;--faint:#20242c;--accent:#7aa9ff;--pos:#f0806a;--neg:#6fb2e8;",
    "--ok:#5cc48d;--warn:#e2ab4d;--s0:#7aa9ff;--s1:#f0806a;--s2:#5cc48d;--s3:#b795f0;--s4:#e2ab4d;",
    "--s5:#4cc7d0;--s6:#ee86c4;--s7:#9aa2b1;",
    "--t0:#717a89;--t1:#6d9dee;--t2:#d9a443;--t3:#4db39d;--t4:#5aa9e6;--t5:#a68fd6}}",
    "*{box-sizing:border-box}",
    "body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,",
    "'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;-webkit-text-size-adjust:100%}",
    "main{max-width:1240px;margin:0 auto;padding:32px 24px 56px}",
    "header{display:flex;flex-wrap:wrap;gap:4px 24px;align-items:baseline;margin-bottom:20px}",
    "h1{font-size:26px;line-height:1.2;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}",
    "h2{font-size:17px;margin:0 0 12px}h2 small{font-weight:400;color:var(--soft);font-size:13px;",
    "margin-left:8px}",
    "header p{margin:0;color:var(--soft);flex-basis:100%}",
    "a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}",
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(200px,1fr));gap:14px}",
    ".card,section{background:var(--panel);border:1px solid var(--line);border-radius:12px}",
    ".card{padding:16px 18px}.card h3{margin:0;font-size:13px;font-weight:500;color:var(--soft)}",
    ".card b{display:block;font-size:30px;line-height:1.25;font-weight:600;",
    "letter-spacing:-.02em;font-variant-numeric:tabular-nums}.card b small{font-size:16px;",
    "font-weight:500;color:var(--soft);letter-spacing:0}",
    ".card p{margin:2px 0 0;color:var(--soft);font-size:13px}",
    "section{padding:20px 22px;margin-top:16px;overflow-x:auto}",
    ".grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(270px,1fr));gap:16px;",
    "margin-top:16px}",
    ".grid section{min-width:0;margin:0;padding:20px 18px}.grid svg{max-width:420px}",
    /* Five charts are three and two. */
    "@media print,(min-width:1000px){.grid:has(>:nth-child(5):last-child){grid-template-columns:"
    "repeat(6,1fr)}.grid:has(>:nth-child(5):last-child)>section{grid-column:span 2}"
    ".grid:has(>:nth-child(5):last-child)>section:nth-child(n+4){grid-column:span 3}}",
    ".stack{display:flex;height:10px;border-radius:5px;overflow:hidden;gap:2px;margin:9px 0 7px}",
    ".stack i{display:block;min-width:3px}",
    ".key{display:flex;flex-wrap:wrap;gap:3px 16px;font-size:13px;color:var(--soft);margin:10px 0 "
    "0;",
    "padding:0;list-style:none}.key "
    "i{display:inline-block;width:10px;height:10px;border-radius:3px;",
    "margin-right:6px}.key b{color:var(--ink);font-weight:600;font-variant-numeric:tabular-nums}",
    ".key svg.line{display:inline-block;width:28px;height:10px;margin-right:6px}",
    "svg{display:block;width:100%;height:auto;overflow:visible}svg text{fill:var(--soft);",
    "font-size:11px}svg "
    "text.on{paint-order:stroke;stroke:var(--panel);stroke-width:4px}.axis{stroke:var(--line)}."
    "base{stroke:var(--soft);stroke-width:1}",
    "table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}",
    "th{font-weight:500;color:var(--soft);font-size:13px;text-align:left}",
    "th,td{padding:7px 12px 7px 0;border-bottom:1px solid var(--line);vertical-align:middle}",
    "tbody tr:last-child td,tbody tr:last-child th{border-bottom:0}",
    "td.n,th.n{text-align:right;padding-right:14px}td.n{white-space:nowrap}td.name{overflow-wrap:"
    "anywhere;min-width:150px}td.label{white-space:nowrap}",
    "td.name div{color:var(--soft);font-size:12.5px;max-width:440px}",
    "td .warn,td.name div.warn{color:var(--warn)}td.files{white-space:nowrap;font-size:13px}",
    "td.files span{color:var(--soft);display:inline-block;min-width:38px}td.files "
    "a{margin-right:8px}",
    "th button{all:unset;cursor:pointer}th button:hover,th button:focus-visible{color:var(--ink);",
    "text-decoration:underline}th[aria-sort=ascending] button::after{content:' \\2191'}",
    "th[aria-sort=descending] button::after{content:' \\2193'}",
    "img.top{display:block;margin-top:4px;max-width:320px;height:auto;border-radius:4px}",
    ".thumb{width:92px}.thumb img{display:block;max-width:80px;max-height:64px;border-radius:5px;",
    "border:1px solid var(--line);background:#fff}.thumb a:hover img{border-color:var(--accent)}",
    ".tag{display:inline-block;padding:1px "
    "9px;border-radius:10px;font-size:12.5px;white-space:nowrap;",
    "background:var(--faint);color:var(--soft)}",
    ".tag.pos{background:color-mix(in srgb,var(--pos) 14%,transparent);color:var(--pos)}",
    ".tag.neg{background:color-mix(in srgb,var(--neg) 14%,transparent);color:var(--neg)}",
    ".tag.bad{background:color-mix(in srgb,var(--warn) 16%,transparent);color:var(--warn)}",
    ".score{display:flex;align-items:center;gap:8px;justify-content:flex-end}",
    ".meter{position:relative;width:40px;height:6px;border-radius:3px;background:var(--line);",
    "overflow:hidden}.meter i{position:absolute;inset:0 auto 0 0;background:var(--neg)}",
    ".meter.pos i{background:var(--pos)}",
    ".tools{display:flex;flex-wrap:wrap;gap:8px;margin:0 0 10px}",
    ".tools input,.tools select{font:inherit;font-size:14px;padding:6px 10px;border-radius:8px;",
    "border:1px solid var(--line);background:var(--bg);color:var(--ink)}.tools input{flex:1 1 "
    "220px}",
    ".tools output{align-self:center;color:var(--soft);font-size:13px}",
    ".matrix{display:grid;grid-template-columns:auto 1fr "
    "1fr;gap:4px;font-size:13px;max-width:330px;",
    "align-items:stretch}.matrix span{color:var(--soft);align-self:center;text-align:center;",
    "overflow-wrap:anywhere}.matrix span.r{text-align:right;padding-right:8px}",
    ".matrix div{border-radius:8px;padding:9px "
    "6px;text-align:center;font-size:20px;font-weight:600;",
    "background:var(--faint)}.matrix div small{display:block;font-size:11.5px;font-weight:400;",
    "color:var(--soft)}.matrix .good{background:color-mix(in srgb,var(--ok) 18%,var(--panel))}",
    ".matrix .bad{background:color-mix(in srgb,var(--pos) 18%,var(--panel))}",
    ".matrices{display:flex;flex-wrap:wrap;gap:18px 28px}.matrices h3,.times h3{margin:0 0 6px;",
    "font-size:13px;font-weight:600}.times h3{margin-top:14px}.times h3 small{font-weight:400;",
    "color:var(--soft);margin-left:6px}.times h3:first-of-type{margin-top:0}",
    ".times .stack{height:16px;margin:4px 0}.times .row{display:grid;grid-template-columns:110px "
    "1fr;",
    "align-items:center;gap:10px;color:var(--soft);font-size:13px}",
    ".times .row.phase{grid-template-columns:110px 1fr 310px}.row.phase b{color:var(--ink);",
    "font-weight:600;display:inline-block;min-width:86px;text-align:right;margin-right:12px;",
    "font-variant-numeric:tabular-nums}",
    "button.zoom{all:unset;cursor:zoom-in;display:block}button.zoom:focus-visible{outline:2px "
    "solid "
    "var(--accent)}dialog{border:1px solid var(--line);border-radius:12px;background:var(--panel);"
    "color:var(--ink);max-width:96vw}dialog "
    "img{display:block;width:min(90vw,80vh,960px);height:auto;"
    "max-height:80vh;object-fit:contain;image-rendering:pixelated;background:#fff}"
    "dialog::backdrop{background:#000a}",
    ".reasons,.reasons ul{margin:0;padding-left:18px}.reasons li{margin:3px "
    "0;overflow-wrap:anywhere}",
    ".reasons b{margin-right:6px}details summary{cursor:pointer;color:var(--soft)}",
    "td.same{font-weight:600;color:var(--ok)}code{font-size:.93em}",
    ".said{margin:8px 0 0}.times .said{margin:0 0 10px}",
    ".track{position:relative;height:12px}.lanes{position:relative;margin:10px 0}.lanes "
    ".track{position:absolute;"
    "left:0;right:0;height:8px}.track i{position:absolute;top:0;bottom:0;min-width:2px;"
    "border-radius:2px}.jobs .row{grid-template-columns:110px 1fr;min-height:16px}",
    ".jobs i.wait{background:var(--line)}.jobs i.tile{background:var(--t3)}.jobs i.calibrate{"
    "background:var(--t2)}.jobs i.infer{background:var(--t1)}.jobs i.bad{background:var(--pos)}",
    ".jobs details{margin-top:10px}",
    ".list td{overflow-wrap:anywhere}.list td.name{width:34%;min-width:90px}",
    ".none{color:var(--soft);margin:0}.dash{color:var(--soft);border-bottom:1px "
    "dotted;cursor:help}",
    "dl{display:grid;grid-template-columns:minmax(110px,auto) 1fr;gap:5px 22px;margin:0;",
    "font-size:14px}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere;font-family:ui-"
    "monospace,",
    "SFMono-Regular,Menlo,Consolas,monospace;font-size:13px}",
    "footer{margin-top:20px;color:var(--soft);font-size:13px}",
    "@media screen and (max-width:700px){main{padding:18px 12px 40px}section{padding:16px 14px}",
    ".grid{grid-template-columns:1fr}.times .row.phase{grid-template-columns:70px 1fr 150px}",
    ".row.phase b{min-width:64px;margin-right:6px}",
    "dl{grid-template-columns:1fr}dt{margin-top:5px}}",
    /* A row of a table that is too wide becomes a block of lines, each with its column's name. */
    "@media screen{table.rows,.rows tbody,.rows tbody th{display:block}.rows thead{display:none}",
    ".rows tbody tr{display:grid;grid-template-columns:1fr 1fr;column-gap:22px;padding:9px 0;"
    "border-bottom:1px solid var(--line)}.rows tbody :is(th,td:not(.n)){grid-column:1/-1}"
    ".rows tbody tr[hidden]{display:none}.rows tbody tr:last-child{border:0}",
    ".rows tbody th{border:0;padding:0;color:var(--ink);font-weight:600}",
    ".rows tbody td,.rows tbody td.n{display:flex;flex-wrap:wrap;justify-content:flex-end;"
    "gap:0 8px;border:0;padding:1px 0;text-align:right;white-space:normal;overflow-wrap:anywhere}",
    ".rows td:empty{display:none!important}.rows td[data-l]::before{content:attr(data-l);"
    "color:var(--soft);font-size:13px;text-align:left;overflow-wrap:normal;margin-right:auto}"
    ".rows td br{display:none}.rows td small{flex-basis:100%}",
    "#slides.rows thead{display:block}#slides.rows thead tr{display:flex;flex-wrap:wrap;gap:2px "
    "14px}",
    "#slides.rows thead th{border:0;padding:2px 0}#slides.rows th:empty,#slides.rows th.files"
    "{display:none}#slides.rows tbody tr{grid-template-columns:92px 1fr}#slides.rows "
    "td{grid-column:2}",
    "#slides.rows td.thumb{grid-column:1;grid-row:1/span 12;display:block}#slides.rows td.name"
    "{display:block;text-align:left;font-weight:600;min-width:0}#slides.rows td.name::before,"
    "#slides.rows td.files::before{content:none}#slides.rows td.name div{font-weight:400}",
    "#slides.rows td.files{display:block;text-align:left}.meter{width:48px}}",
    "@page{size:A4;margin:12mm}",
    "@media "
    "print{*{print-color-adjust:exact;-webkit-print-color-adjust:exact}body{background:#fff;",
    "font-size:12px}main{padding:0;max-width:none}section,.card,tr{break-inside:avoid}",
    "section{overflow:visible;padding:12px "
    "14px}section:has(#slides,.reasons,.list){break-inside:auto}",
    ".grid{grid-template-columns:repeat(3,1fr)}.grid svg{max-width:235px}"
    ".cards{grid-template-columns:repeat(auto-fit,minmax(120px,1fr))}h2{break-inside:avoid;break-"
    "after:avoid}",
    ".card b{font-size:22px}table,td.name div,.key{font-size:9.5px}.tag{font-size:9.5px;padding:0 "
    "6px}th{font-size:9.5px;white-space:normal}",
    "th,td,td.n,th.n{padding:3px 6px 3px 0}td.name{min-width:110px}.meter{width:30px}",
    ".thumb{width:52px}.thumb img{max-width:46px;max-height:38px}td.n{white-space:normal}",
    ".tools,td.files,th.files,summary,dialog{display:none}}",
};

static const char *const script[] = {
    "(()=>{document.querySelectorAll('table:has(thead)').forEach(t=>{const names=",
    "[...t.tHead.rows[0].cells].map(c=>c.textContent);[...t.tBodies[0].rows].forEach(r=>",
    "[...r.cells].forEach((c,i)=>{if(c.tagName==='TD'&&names[i])c.dataset.l=names[i]}));",
    "});",
    "const "
    "fit=()=>document.querySelectorAll('table:has(thead)').forEach(t=>{t.classList.remove('rows');",
    "const box=t.parentElement,s=getComputedStyle(box);t.classList.toggle('rows',",
    "t.scrollWidth>box.clientWidth-parseFloat(s.paddingLeft)-parseFloat(s.paddingRight)+1)});",
    "fit();addEventListener('resize',fit);document.addEventListener('toggle',fit,true);",
    "addEventListener('beforeprint',()=>document.querySelectorAll('details').forEach(d=>d.open="
    "true));",
    "const large=document.getElementById('large');if(!large)return;",
    "large.querySelector('button').addEventListener('click',()=>large.close());",
    "document.querySelectorAll('button.zoom').forEach(b=>b.addEventListener('click',()=>{",
    "const from=b.firstElementChild,to=large.querySelector('img');to.src=from.src;to.alt=from.alt;",
    "large.querySelector('p').textContent=from.alt;large.showModal()}))})();",
    "(()=>{const t=document.getElementById('slides');if(!t)return;const b=t.tBodies[0];",
    "const all=[...b.rows],text=document.getElementById('find'),",
    "pick=document.getElementById('pick'),shown=document.getElementById('shown');",
    "const key=(r,i)=>{const c=r.cells[i],k=c.dataset.k;return k===undefined?c.textContent:",
    "k===''?null:+k};",
    "t.querySelectorAll('th button').forEach(button=>{const th=button.parentNode;",
    "button.addEventListener('click',()=>{const up=th.getAttribute('aria-sort')!=='ascending';",
    "t.querySelectorAll('th').forEach(h=>h.removeAttribute('aria-sort'));",
    "th.setAttribute('aria-sort',up?'ascending':'descending');const i=th.cellIndex;",
    "all.sort((p,q)=>{const x=key(p,i),y=key(q,i);if(x===null||y===null)",
    "return(x===null)-(y===null);const d=typeof x==='number'?x-y:",
    "x.localeCompare(y,undefined,{numeric:true});return up?d:-d});b.append(...all)})});",
    "const filter=()=>{const w=text.value.toLowerCase(),s=pick.value;let n=0;",
    "all.forEach(r=>{const ok=(!w||r.dataset.n.toLowerCase().includes(w))&&",
    "(!s||r.dataset.s.split(' ').includes(s));r.hidden=!ok;n+=ok});",
    "shown.textContent=n+' of '+all.length+(t.dataset.all?' here, '+t.dataset.all+' in all':'')};",
    "text.addEventListener('input',filter);pick.addEventListener('change',filter);filter()})();",
};

void hrf_page_style(struct hrf_out *out)
{
    hrf_out_adds(out, "<style>\n");
    for (size_t i = 0; i < sizeof style / sizeof style[0]; i++)
        hrf_out_addf(out, "%s\n", style[i]);
    hrf_out_adds(out, "</style>\n");
}

void hrf_page_script(struct hrf_out *out)
{
    hrf_out_adds(out, "<script>\n");
    for (size_t i = 0; i < sizeof script / sizeof script[0]; i++)
        hrf_out_addf(out, "%s\n", script[i]);
    hrf_out_adds(out, "</script>\n");
}

/* Neighbours differ in both; solid for the reference. */
static const char *dashes(size_t index)
{
    static const char *const kinds[] = { "", "7 3", "2 3", "10 3 2 3", "14 5" };
    return kinds[(index + index / HRF_PAGE_COLOURS) % (sizeof kinds / sizeof kinds[0])];
}

void hrf_page_line(struct hrf_out *out, size_t index)
{
    hrf_out_addf(out,
                 "<path fill=\"none\" stroke=\"var(--s%zu)\" stroke-width=\"2\" "
                 "stroke-linejoin=\"round\" stroke-dasharray=\"%s\" d=\"",
                 index % HRF_PAGE_COLOURS, dashes(index));
}

void hrf_page_key(struct hrf_out *out, size_t index)
{
    hrf_out_addf(out, "<li><svg class=\"line\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">");
    hrf_page_line(out, index);
    hrf_out_addf(out, "M0 5h28\"/></svg>");
}
