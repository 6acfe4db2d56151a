# Web server: ten pages are read, then a line goes to the log that all threads share.
set $dir=/filebench
set $nfiles=1000
set $dirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $nthreads=100
set $iosize=1m
set $appendsize=16k
define fileset name=tree,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$dirwidth,prealloc=100,readonly
define fileset name=log,path=$dir,size=$filesize,entries=1,dirwidth=$dirwidth,prealloc
define process name=main,instances=1 {
  thread name=worker,memsize=10m,instances=$nthreads {
    flowop openfile name=open1,filesetname=tree,fd=1
    flowop readwholefile name=read1,fd=1,iosize=$iosize
    flowop closefile name=close1,fd=1
    flowop openfile name=open2,filesetname=tree,fd=1
    flowop readwholefile name=read2,fd=1,iosize=$iosize
    flowop closefile name=close2,fd=1
    flowop openfile name=open3,filesetname=tree,fd=1
    flowop readwholefile name=read3,fd=1,iosize=$iosize
    flowop closefile name=close3,fd=1
    flowop openfile name=open4,filesetname=tree,fd=1
    flowop readwholefile name=read4,fd=1,iosize=$iosize
    flowop closefile name=close4,fd=1
    flowop openfile name=open5,filesetname=tree,fd=1
    flowop readwholefile name=read5,fd=1,iosize=$iosize
    flowop closefile name=close5,fd=1
    flowop openfile name=open6,filesetname=tree,fd=1
    flowop readwholefile name=read6,fd=1,iosize=$iosize
    flowop closefile name=close6,fd=1
    flowop openfile name=open7,filesetname=tree,fd=1
    flowop readwholefile name=read7,fd=1,iosize=$iosize
    flowop closefile name=close7,fd=1
    flowop openfile name=open8,filesetname=tree,fd=1
    flowop readwholefile name=read8,fd=1,iosize=$iosize
    flowop closefile name=close8,fd=1
    flowop openfile name=open9,filesetname=tree,fd=1
    flowop readwholefile name=read9,fd=1,iosize=$iosize
    flowop closefile name=close9,fd=1
    flowop openfile name=open10,filesetname=tree,fd=1
    flowop readwholefile name=read10,fd=1,iosize=$iosize
    flowop closefile name=close10,fd=1
    flowop appendfilerand name=append1,filesetname=log,iosize=$appendsize,fd=2
  }
}
